package torch

import (
	"errors"
	"fmt"
	"regexp"
	"sort"
	"strings"
)

// lacksMemory reports whether a device had no room for a request.
func lacksMemory(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "OutOfMemoryError") || strings.Contains(err.Error(), "DefaultCPUAllocator"))
}

// smaller adds to the error of a device without room which micro-batch would fit, by the plan. A plan
// that has room for the present one is too low, so half of that is proposed.
func (f *footprint) smaller(err error) error {
	now := f.spec.MicroTokens
	fits := sort.Search(now, func(n int) bool {
		trial := *f
		trial.parts, trial.spec.MicroTokens = nil, n+1
		parts, failed := trial.plan()
		var bytes int64
		for _, p := range parts {
			if p.Device != "" && !p.Passing {
				bytes += p.Bytes
			}
		}
		return failed != nil || bytes > f.free
	})
	switch {
	case f.free == 0 || fits == now:
		fits = now / 2
	case fits < f.spec.MaxModelLen:
		return fmt.Errorf("%w: the plan has room for %d tokens at once: raise cluster.trainer_ranks, set recompute: true in "+
			"trainer.trainer_args, or lower model.max_model_len", err, fits)
	}
	return fmt.Errorf("%w: trainer.max_token_len_per_gpu=%d would fit", err, fits)
}

// What torchrun writes at the end. rootCause finds the rank that failed first. killed finds one that a
// signal has ended: it has written nothing itself, and torchrun may take a rank that only lost the
// connection to it for the first. It ends the others with SIGTERM.
var (
	rootCause = regexp.MustCompile(`(?s)Root Cause .*?rank\s*: (\d+) `)
	killed    = regexp.MustCompile(`rank\s*: (\d+) \(local_rank: \d+\)\s+exitcode\s*: -\d+ \(pid: \d+\) \((SIG[A-SU-Z]\w+)\)`)
)

// killedError is the end of a rank by a signal.
type killedError struct{ rank, signal string }

func (e *killedError) Error() string { return fmt.Sprintf("rank %s was killed (%s)", e.rank, e.signal) }

// ending returns why the processes of a worker have ended, from the error of their command; nil if
// that gave none.
func ending(err error) error {
	if err == nil {
		return errors.New("the worker has ended: it gave no reason")
	}
	if found := killed.FindStringSubmatch(err.Error()); found != nil {
		return &killedError{rank: found[1], signal: found[2]}
	}
	if found := rootCause.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("the worker has ended, rank %s first: %w", found[1], err)
	}
	return fmt.Errorf("the worker has ended: %w", err)
}
