package kernel

import (
	"fmt"
	"math"
	"os"
	"runtime"
)

// CoreCount says how many cores a pool uses, and why.
type CoreCount struct {
	Used     int     // by NewPool(0)
	Machine  int     // online; 0 is unknown
	Affinity int     // that this process may run on: its mask, cpusets of its cgroup
	Quota    float64 // cores' worth of time that its cgroup may use; 0 is no limit
	Set      string  // the environment's GOMAXPROCS, which goes before all of them; "" when it is not set
}

// Cores finds how many cores there are to use.
func Cores() CoreCount {
	c := CoreCount{Affinity: runtime.NumCPU(), Quota: quota(), Set: os.Getenv("GOMAXPROCS")}
	c.Machine = online()
	c.use(runtime.GOMAXPROCS(0))
	return c
}

// use takes what the Go runtime allows, which regards affinity and quota (rounded up, but not below 2). With a quota of one core's worth, a second
// thread would only use it up sooner and leave both stopped until the next period.
func (c *CoreCount) use(allowed int) {
	c.Used = allowed
	if c.Quota > 0 && c.Set == "" {
		c.Used = max(1, min(allowed, int(math.Ceil(c.Quota))))
	}
}

// String is "2 cores of 8: the cgroup allows 1.5".
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
