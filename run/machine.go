package run

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// MachineFacts are this machine's limits in bytes; 0 is unknown.
type MachineFacts struct {
	Memory    uint64 // what this process may use: the machine's, or its cgroup's if less
	Available uint64
	Disk      uint64 // free in the working directory
}

// Machine reads them.
func Machine() MachineFacts {
	var m MachineFacts
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.Memory, m.Available = meminfo(data, "MemTotal:"), meminfo(data, "MemAvailable:")
	}
	if limit := cgroupLimit(); limit > 0 && limit < m.Memory {
		m.Memory, m.Available = limit, min(limit, m.Available)
	}
	m.Disk = diskFree(".")
	return m
}

// meminfo reads a line of /proc/meminfo, which counts KiB.
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

func cgroupLimit() uint64 {
	data, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64) // "max" is no limit
	return n
}
