package workflow

import (
	"fmt"
	"io"
	"sync"
)

// maxErrors bounds the bytes of a rollout's standard error that go to plugins.log: a program in a loop
// would push out what all others have said.
const maxErrors = 1 << 20

// quota passes so many bytes on, and leaves out the rest.
type quota struct {
	to io.Writer

	mu   sync.Mutex
	left int
}

func newQuota(w io.Writer) *quota { return &quota{to: w, left: maxErrors} }

// Write implements io.Writer.
func (q *quota) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.left == 0 {
		return len(p), nil
	}
	n := min(len(p), q.left)
	q.left -= n
	_, err := q.to.Write(p[:n])
	if q.left == 0 && err == nil {
		_, err = fmt.Fprintf(q.to, "\n… the standard error of a rollout has %d MiB or more: the rest is left out\n", maxErrors>>20)
	}
	return len(p), err
}

// refill begins the quota of another rollout.
func (q *quota) refill() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left = maxErrors
}
