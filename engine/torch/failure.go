package torch

import (
	"fmt"
	"regexp"
)

// rootCause finds, in what torchrun writes at the end, the rank that failed first. A rank that a
// signal has ended has written nothing itself.
var rootCause = regexp.MustCompile(`(?s)Root Cause .*?rank\s*: (\d+) .*?exitcode\s*: (-?\d+) \(pid: \d+\)(?: \((SIG\w+)\))?`)

// killedError is the end of a rank by a signal.
type killedError struct{ rank, signal string }

func (e *killedError) Error() string { return fmt.Sprintf("rank %s was killed (%s)", e.rank, e.signal) }

// ending returns why the processes of a worker have ended, from the error of their group.
func ending(err error) error {
	switch found := rootCause.FindStringSubmatch(err.Error()); {
	case found == nil:
		return fmt.Errorf("the worker has ended: %w", err)
	case found[3] != "":
		return &killedError{rank: found[1], signal: found[3]}
	default:
		return fmt.Errorf("the worker has ended, rank %s first: %w", found[1], err)
	}
}
