package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// mounted is where the hierarchies of control groups usually are.
const mounted = "/sys/fs/cgroup"

// groups is the folder in which this process may make control groups.
type groups struct {
	version int
	folder  string
}

// cgroups returns where control groups can be made. It is an error if there is no such place.
var cgroups = sync.OnceValues(func() (g groups, err error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return g, err
	}
	if g, err = findGroups(mounted, string(text)); err == nil {
		g.sweep()
	}
	return g, err
})

// findGroups looks for a folder that allows it. text is /proc/self/cgroup.
func findGroups(mounted, text string) (groups, error) {
	err := errors.New("neither version 2 nor the memory controller of version 1 is mounted at " + mounted)
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controller, own, _ := strings.Cut(rest, ":")
		version, file, places := 1, "memory.limit_in_bytes", []string{filepath.Join(mounted, "memory", own), filepath.Join(mounted, "memory")}
		switch controller {
		case "": // a group that has processes has no groups with limits, so one beside it comes first
			version, file = 2, "memory.max"
			places = []string{filepath.Join(mounted, filepath.Dir(own)), filepath.Join(mounted, own)}
		case "memory":
		default:
			continue
		}
		for _, place := range places {
			tried := tryGroup(place, file)
			if tried == nil {
				return groups{version, place}, nil
			}
			if !errors.Is(tried, os.ErrNotExist) {
				err = tried
			}
		}
	}
	return groups{}, err
}

// tryGroup makes a group below a folder, looks whether it has a file, and removes it.
func tryGroup(place, file string) error {
	if _, err := os.Stat(filepath.Join(place, "cgroup.procs")); err != nil {
		return err
	}
	path := groupName(place)
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	defer syscall.Rmdir(path)
	if _, err := os.Stat(filepath.Join(path, file)); err != nil {
		return fmt.Errorf("%s has no memory controller for groups below it", place)
	}
	return nil
}

var groupCount atomic.Uint64

const groupPrefix = "trinity-sandbox-"

func groupName(place string) string {
	return filepath.Join(place, fmt.Sprintf("%s%d-%d", groupPrefix, os.Getpid(), groupCount.Add(1)))
}

// sweep removes the groups that killed processes have left.
func (g *groups) sweep() {
	left, _ := filepath.Glob(filepath.Join(g.folder, groupPrefix+"*"))
	for _, path := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), groupPrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
			_ = syscall.Rmdir(path)
		}
	}
}

// cgroup is the control group of one program.
type cgroup struct {
	version int
	folder  string
}

// newCgroup makes a group with limits and moves a process into it.
func newCgroup(l Limits, pid int) (_ *cgroup, err error) {
	in, err := cgroups()
	if err != nil {
		return nil, err
	}
	c := &cgroup{in.version, groupName(in.folder)}
	if err := os.Mkdir(c.folder, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	memory := strconv.FormatInt(l.Memory, 10)
	limit, swap := [2]string{"memory.max", memory}, [2]string{"memory.swap.max", "0"}
	if c.version == 1 {
		limit, swap = [2]string{"memory.limit_in_bytes", memory}, [2]string{"memory.memsw.limit_in_bytes", memory}
	}
	if err := c.set(limit[0], limit[1]); err != nil {
		return nil, err
	}
	if err := c.set(swap[0], swap[1]); err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel may not count it
		return nil, err
	}
	return c, c.set("cgroup.procs", strconv.Itoa(pid))
}

func (c *cgroup) set(file, value string) error {
	f, err := os.OpenFile(filepath.Join(c.folder, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// close removes the group, whose processes have ended, and reports whether one was killed because
// the group had no memory.
func (c *cgroup) close() (outOfMemory bool) {
	file := "memory.events"
	if c.version == 1 {
		file = "memory.oom_control"
	}
	text, _ := os.ReadFile(filepath.Join(c.folder, file))
	for line := range bytes.Lines(text) {
		if count, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
			outOfMemory = string(count) != "0"
		}
	}
	for range 100 {
		if err := syscall.Rmdir(c.folder); !errors.Is(err, syscall.EBUSY) { // its last process is being reaped
			break
		}
		time.Sleep(time.Millisecond)
	}
	return outOfMemory
}
