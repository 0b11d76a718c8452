package kernel

import (
	"runtime"
	"testing"
)

func TestCoresUsed(t *testing.T) {
	for _, c := range []struct {
		count   CoreCount
		allowed int // by the Go runtime
		want    int
		text    string
	}{
		{CoreCount{Machine: 8, Affinity: 8}, 8, 8, "8 cores of 8"},
		{CoreCount{Affinity: 8}, 8, 8, "8 cores"},
		{CoreCount{Machine: 8, Affinity: 4}, 4, 4, "4 cores of 8: the process may run on no others (affinity or cpuset)"},
		{CoreCount{Machine: 8, Affinity: 8, Quota: 2.5}, 3, 3, "3 cores of 8: the cgroup's quota is 2.5"},
		{CoreCount{Machine: 8, Affinity: 8, Quota: 0.5}, 2, 1, "1 core of 8: the cgroup's quota is 0.5"},
		{CoreCount{Machine: 8, Affinity: 2, Quota: 5}, 2, 2, "2 cores of 8: the process may run on no others (affinity or cpuset)"},
		{CoreCount{Machine: 8, Affinity: 8, Quota: 1, Set: "6"}, 6, 6, "6 cores of 8: GOMAXPROCS is 6"},
		{CoreCount{Machine: 8, Affinity: 8}, 3, 3, "3 cores of 8: GOMAXPROCS was set by the program"},
	} {
		c.count.use(c.allowed)
		if c.count.Used != c.want || c.count.String() != c.text {
			t.Errorf("%+v: %q, want %d: %q", c.count, c.count.String(), c.want, c.text)
		}
	}
	if c := Cores(); c.Used < 1 || c.Used > runtime.GOMAXPROCS(0) {
		t.Errorf("%+v", c)
	}
}
