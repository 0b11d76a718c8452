package kernel

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

func quota() float64 { return cgroupQuota(os.DirFS("/")) }

func online() int {
	data, _ := os.ReadFile("/sys/devices/system/cpu/online") // unknown if unreadable
	return countRanges(string(data))
}

// countRanges counts the numbers in a list such as 0-3,8. It returns 0 if text is not such a list.
func countRanges(list string) int {
	n := 0
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA != nil || errB != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}

// cgroupQuota returns the least quota of this process's cgroup and its parents, in cores' worth of
// time, in either version of cgroups. It returns 0 if there is none or none can be read.
func cgroupQuota(root fs.FS) float64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return 0
	}
	least := 0.0
	for line := range strings.Lines(string(groups)) { // ID:CONTROLLERS:PATH; version 2 has no controllers
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && !listed(parts[1], "cpu") {
			continue
		}
		point, mounted, ok := mountOf(string(mounts), parts[1] == "")
		if !ok {
			continue
		}
		inside := strings.TrimPrefix(parts[2], strings.TrimSuffix(mounted, "/")) // a container sees its own group as the root of the mount
		for dir := path.Join("/", inside); ; dir = path.Dir(dir) {
			if q := quotaIn(root, path.Join(point, dir)); q > 0 && (least == 0 || q < least) {
				least = q
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// mountOf returns where version 2, or version 1's cpu controller, is mounted, and the group that is
// its root.
func mountOf(mounts string, v2 bool) (point, root string, ok bool) {
	for line := range strings.Lines(mounts) { // ID PARENT DEVICE ROOT POINT OPTIONS… - TYPE SOURCE SUPER
		before, after, _ := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		if v2 && g[0] == "cgroup2" || !v2 && g[0] == "cgroup" && listed(g[2], "cpu") {
			return f[4], f[3], true
		}
	}
	return "", "", false
}

// quotaIn reads the quota of one group in either version; 0 means none.
func quotaIn(root fs.FS, dir string) float64 {
	read := func(name string) string {
		data, _ := fs.ReadFile(root, strings.TrimPrefix(path.Join(dir, name), "/")) // a group need not have the file
		return strings.TrimSpace(string(data))
	}
	amount, period, ok := strings.Cut(read("cpu.max"), " ") // "max 100000" means none
	if !ok {
		amount, period = read("cpu.cfs_quota_us"), read("cpu.cfs_period_us") // -1 means none
	}
	a, errA := strconv.ParseFloat(amount, 64)
	p, errP := strconv.ParseFloat(period, 64)
	if errA != nil || errP != nil || !(a > 0) || !(p > 0) {
		return 0
	}
	return a / p
}

// listed reports whether a comma-separated list has the name.
func listed(list, name string) bool {
	for part := range strings.SplitSeq(list, ",") {
		if part == name {
			return true
		}
	}
	return false
}
