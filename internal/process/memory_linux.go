package process

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// allowed says how much memory a confined function gets: what its limit says, or less by ulimit.
func allowed(memory int64) string {
	var space, data unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_AS, &space)
	_ = unix.Getrlimit(unix.RLIMIT_DATA, &data)
	switch {
	case space.Cur > 0 && space.Cur < uint64(memory)+1<<30: // Go reserves almost 1 GiB
		return fmt.Sprintf("`ulimit -v` allows: %d MiB", space.Cur>>20)
	case data.Max > 0 && data.Max < uint64(memory):
		return fmt.Sprintf("`ulimit -d` allows: %d MiB", data.Max>>20)
	}
	if memory < 1<<30 {
		return fmt.Sprintf("the %d MiB that it gets", memory>>20)
	}
	return fmt.Sprintf("the %d GiB that it gets", memory>>30)
}

// Resident returns the bytes of memory that the program and its descendants have now, pages of mapped
// files among them. 0 means that the system does not tell.
func (x *Process) Resident() (bytes int64) {
	for left := children(x.cmd.Process.Pid); len(left) > 0; left = left[1:] { // the supervisor does not count
		var size, resident int64
		statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", left[0])) // it may have ended
		if _, err := fmt.Sscan(string(statm), &size, &resident); err == nil {
			bytes += resident * int64(os.Getpagesize())
		}
		left = append(left, children(left[0])...)
	}
	return bytes
}

// limitMemory limits the writable memory that this process gets beyond what it has.
func limitMemory(bytes uint64) error {
	var pages [6]uint64 // size, resident, shared, text, lib, data
	statm, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(statm), &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5])
	}
	var limit unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_DATA, &limit)
	}
	if err != nil {
		return err
	}
	limit.Cur = min(limit.Max, pages[5]*uint64(os.Getpagesize())+bytes)
	debug.SetMemoryLimit(int64(bytes / 4 * 3))
	endFirst()
	return unix.Setrlimit(unix.RLIMIT_DATA, &limit)
}

// endFirst makes this process, and those that it starts, the first that the system kills if the machine
// has no memory. Not every system lets it.
func endFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) }
