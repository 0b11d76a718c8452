package place

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// MachineFacts are this machine's limits in bytes. 0 means unknown.
type MachineFacts struct {
	Memory    uint64 // that this process may use: the machine's, or its control group's if less
	Available uint64
	Disk      uint64 // free in the working directory
}

// Machine reads the limits of this machine.
func Machine() MachineFacts {
	var m MachineFacts
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.Memory, m.Available = meminfo(data, "MemTotal:"), meminfo(data, "MemAvailable:")
	}
	self, _ := os.ReadFile("/proc/self/cgroup") // absent where there are no control groups
	limit, available := cgroups(os.DirFS("/sys/fs/cgroup"), string(self))
	m.Memory, m.Available = min(m.Memory, limit), min(m.Available, max(available, 1)) // 0 would be unknown
	m.Disk = diskFree(".")
	return m
}

// meminfo returns the bytes in a line of /proc/meminfo, which counts KiB.
func meminfo(data []byte, key string) uint64 {
	sc := bufio.NewScanner(bytes.NewReader(data))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) >= 2 && f[0] == key {
			n, _ := strconv.ParseUint(f[1], 10, 64) // a line in another form counts as unknown
			return n << 10
		}
	}
	return 0
}
