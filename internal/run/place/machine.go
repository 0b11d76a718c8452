package place

import (
	"bufio"
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
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

// groupFiles names the files of a memory control group with its limit and its use. cache is the
// line of memory.stat that counts the file cache, which is part of the use and gives way.
type groupFiles struct{ limit, use, cache string }

var (
	groupV1 = groupFiles{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	groupV2 = groupFiles{"memory.max", "memory.current", "inactive_file"}
)

// cgroups returns, in bytes, the least limit of the control groups of a process, and the least
// memory that any of them leaves free. Without a limit, both are the largest number. root is the
// mounted hierarchy. self is the process's /proc/self/cgroup, with lines "number:controllers:path".
func cgroups(root fs.FS, self string) (limit, free uint64) {
	limit, free = math.MaxUint64, math.MaxUint64
	for line := range strings.Lines(self) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) < 3 {
			continue
		}
		base, files := ".", groupV2
		if part[1] != "" {
			if !slices.Contains(strings.Split(part[1], ","), "memory") {
				continue
			}
			base, files = "memory", groupV1
		}
		// In a container the path may be that of the host. The root is still there.
		for at := path.Clean("/" + part[2]); ; at = path.Dir(at) {
			l, f := files.read(root, path.Join(base, at))
			limit, free = min(limit, l), min(free, f)
			if at == "/" {
				break
			}
		}
	}
	return limit, free
}

// read returns the limit of one group and what it leaves free.
func (g groupFiles) read(root fs.FS, dir string) (limit, free uint64) {
	number := func(name string) (uint64, bool) {
		data, err := fs.ReadFile(root, path.Join(dir, name))
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64) // "max" is no limit
		return n, err == nil
	}
	limit, ok := number(g.limit)
	if !ok {
		return math.MaxUint64, math.MaxUint64
	}
	use, _ := number(g.use) // unknown counts as 0
	stat, _ := fs.ReadFile(root, path.Join(dir, "memory.stat"))
	for line := range strings.Lines(string(stat)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == g.cache {
			n, _ := strconv.ParseUint(value, 10, 64)
			use -= min(use, n)
		}
	}
	return limit, limit - min(limit, use)
}
