package kernel

import (
	"fmt"
	"math"
	"os"
	"runtime"
)

// CoreCount says how many cores a pool uses, and why.
type CoreCount struct {
	Used     int     // cores that NewPool(0) uses
	Machine  int     // cores online; 0 if unknown
	Affinity int     // cores that this process may run on, by its mask and the cpusets of its cgroup
	Quota    float64 // cores' worth of time that its cgroup may use; 0 means no limit
	Set      string  // GOMAXPROCS in the environment, which overrides the others; "" if not set
}

// Cores returns the number of cores to use.
func Cores() CoreCount {
	c := CoreCount{Affinity: runtime.NumCPU(), Quota: quota(), Set: os.Getenv("GOMAXPROCS")}
	c.Machine = online()
	c.use(runtime.GOMAXPROCS(0))
	return c
}

// use sets Used to the number of cores that the Go runtime allows, which respects affinity and
// quota (rounded up, but at least 2), or to the quota if that is lower: with a quota of one core, a
// second thread would only exhaust it sooner and stop both until the next period.
func (c *CoreCount) use(allowed int) {
	c.Used = allowed
	if c.Quota > 0 && c.Set == "" {
		c.Used = max(1, min(allowed, int(math.Ceil(c.Quota))))
	}
}

// String returns a text such as "2 cores of 8: the cgroup's quota is 1.5".
func (c CoreCount) String() string {
	text := fmt.Sprintf("%d cores", c.Used)
	if c.Used == 1 {
		text = "1 core"
	}
	if c.Machine > 0 {
		text += fmt.Sprintf(" of %d", c.Machine)
	}
	switch {
	case c.Set != "":
		return text + ": GOMAXPROCS is " + c.Set
	case c.Quota > 0 && int(math.Ceil(c.Quota)) == c.Used && c.Used < c.Affinity:
		return text + fmt.Sprintf(": the cgroup's quota is %.3g", c.Quota)
	case c.Affinity < c.Machine && c.Used == c.Affinity:
		return text + ": the process may run on no others (affinity or cpuset)"
	case c.Used < c.Affinity:
		return text + ": GOMAXPROCS was set by the program"
	}
	return text
}
