package place

import (
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

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
