package operator

import (
	"fmt"
	"os"
	"syscall"
)

// thisProgram is the one that runs, even when another has been put in its file's place.
func thisProgram() (string, error) { return "/proc/self/exe", nil }

// confine lets this process have so many bytes of writable memory more than it has, of which the system counts every page that is asked for. Where the
// machine has less than that, it is this process that the system ends, and not the run.
func confine(bytes int64) error {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var size, resident, shared, text, lib, data int64 // in pages
	if _, err := fmt.Sscan(string(statm), &size, &resident, &shared, &text, &lib, &data); err != nil {
		return fmt.Errorf("/proc/self/statm: %w", err)
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // which a container may forbid
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Max = min(limit.Max, uint64(data*int64(os.Getpagesize())+bytes))
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}
