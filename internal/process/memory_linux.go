package process

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

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
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // not everywhere
	return unix.Setrlimit(unix.RLIMIT_DATA, &limit)
}
