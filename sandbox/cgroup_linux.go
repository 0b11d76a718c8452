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

// groups are the folders in which this process may make control groups.
type groups struct {
	version      int
	memory, pids string // equal in version 2; pids may be "" in version 1
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

// findGroups looks for folders that allow it. text is /proc/self/cgroup.
func findGroups(mounted, text string) (g groups, err error) {
	err = errors.New("neither version 2 nor the memory controller of version 1 is mounted at " + mounted)
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controller, own, _ := strings.Cut(rest, ":")
		var places []string
		version := 1
		switch controller {
		case "": // version 2: a group that has processes has no groups with limits, so one beside it comes first
			version = 2
			places = []string{filepath.Join(mounted, filepath.Dir(own)), filepath.Join(mounted, own)}
		case "memory", "pids":
			places = []string{filepath.Join(mounted, controller, own), filepath.Join(mounted, controller)}
		default:
			continue
		}
		for _, place := range places {
			tried := tryGroup(place, version, controller)
			if tried != nil {
				if controller != "pids" && g.memory == "" && !errors.Is(tried, os.ErrNotExist) {
					err = tried
				}
				continue
			}
			switch {
			case controller == "pids":
				g.pids = place
			case g.memory == "":
				g.version, g.memory = version, place
				if version == 2 {
					g.pids = place
				}
			}
			break
		}
	}
	if g.memory == "" {
		return groups{}, err
	}
	return g, nil
}

// tryGroup makes a group below a folder and removes it.
func tryGroup(place string, version int, controller string) error {
	if _, err := os.Stat(filepath.Join(place, "cgroup.procs")); err != nil {
		return err
	}
	path := groupName(place)
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	defer syscall.Rmdir(path)
	file := map[string]string{"": "memory.max", "memory": "memory.limit_in_bytes", "pids": "pids.max"}[controller]
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
	for _, place := range []string{g.memory, g.pids} {
		left, _ := filepath.Glob(filepath.Join(place, groupPrefix+"*"))
		for _, path := range left {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), groupPrefix), "-")
			if n, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(n, 0), syscall.ESRCH) {
				_ = syscall.Rmdir(path)
			}
		}
	}
}

// cgroup is the control group of one program.
type cgroup struct {
	version int
	folders []string // the first counts memory
}

// newCgroup makes a group with limits and moves a process into it.
func newCgroup(l Limits, pid int) (_ *cgroup, err error) {
	in, err := cgroups()
	if err != nil {
		return nil, err
	}
	c := &cgroup{version: in.version, folders: []string{groupName(in.memory)}}
	if in.pids != "" && in.pids != in.memory {
		c.folders = append(c.folders, groupName(in.pids))
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	for _, folder := range c.folders {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, err
		}
	}
	// The confining process has threads of its own; the limit of the user is exact.
	memory, swap, pids := strconv.FormatInt(l.Memory, 10), "0", strconv.Itoa(l.Processes+16)
	settings := [][2]string{{"memory.max", memory}, {"memory.swap.max", swap}, {"pids.max", pids}}
	if c.version == 1 {
		settings = [][2]string{{"memory.limit_in_bytes", memory}, {"memory.memsw.limit_in_bytes", memory}, {"pids.max", pids}}
	}
	for i, s := range settings {
		err := setGroup(c.folders[min(i/2, len(c.folders)-1)], s[0], s[1])
		if err != nil && (i == 0 || !errors.Is(err, os.ErrNotExist)) { // swap and pids may be missing
			return nil, err
		}
	}
	for _, folder := range c.folders {
		if err := setGroup(folder, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func setGroup(folder, file, value string) error {
	f, err := os.OpenFile(filepath.Join(folder, file), os.O_WRONLY, 0)
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
	text, _ := os.ReadFile(filepath.Join(c.folders[0], file))
	for line := range bytes.Lines(text) {
		if count, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("oom_kill ")); ok {
			outOfMemory = string(count) != "0"
		}
	}
	for _, folder := range c.folders {
		for range 100 {
			if err := syscall.Rmdir(folder); !errors.Is(err, syscall.EBUSY) { // its last process is being reaped
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return outOfMemory
}
