package kernel

import (
	"testing"
	"testing/fstest"
)

func TestCgroupQuota(t *testing.T) {
	const (
		v2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
		v1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	)
	for _, c := range []struct {
		name, groups, mounts string
		files                map[string]string
		want                 float64
	}{
		{"version 2", "0::/a/b\n", v2, map[string]string{"sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5},
		{"none", "0::/a/b\n", v2, map[string]string{"sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 0},
		{"a parent's is less", "0::/a/b\n", v2, map[string]string{"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.max": "300000 100000\n"}, 3},
		{"the root of a container", "0::/\n", v2, map[string]string{"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5},
		{"version 1, mounted from inside", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n", v1,
			map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 2},
		{"version 1, none", "3:cpu,cpuacct:/docker/x\n", v1,
			map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 0},
		{"not a number", "0::/\n", v2, map[string]string{"sys/fs/cgroup/cpu.max": "NaN 100000\n"}, 0},
		{"no period", "0::/\n", v2, map[string]string{"sys/fs/cgroup/cpu.max": "100000 0\n"}, 0},
		{"not mounted", "0::/\n", "", nil, 0},
		{"cpuset is not cpu", "3:cpuset:/x\n", v1, map[string]string{"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "1\n"}, 0},
	} {
		root := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.groups)}, "proc/self/mountinfo": {Data: []byte(c.mounts)}}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := cgroupQuota(root); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if got := cgroupQuota(fstest.MapFS{}); got != 0 {
		t.Errorf("no /proc: %v", got)
	}
}

func TestCountRanges(t *testing.T) {
	for list, want := range map[string]int{"0-3,8\n": 5, "0": 1, "": 0, "x": 0, "3-1": 0} {
		if got := countRanges(list); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}
