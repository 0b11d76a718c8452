// Package buffer holds the stores between explorer and trainer.
package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/trinity-go/trinity"
)

// Queue is a first-in, first-out buffer in memory with a bounded number of rollouts. A rollout is the experiences of one run, its steps, as long as
// they follow one another in ascending turn.
type Queue struct {
	// ByRollout makes Take count rollouts, of which it cuts none, in place of experiences. It is set before the queue is used.
	ByRollout bool

	capacity int // rollouts

	mu      sync.Mutex
	pending []*trinity.Experience
	cursor  json.RawMessage
	paused  int64 // version that the explorer waits for
	closed  bool
	changed chan struct{} // closed and replaced whenever the state above changes
}

// NewQueue makes a queue that blocks Put while it holds capacity rollouts or more.
func NewQueue(capacity int) *Queue {
	return &Queue{capacity: capacity, changed: make(chan struct{})}
}

// Put adds the delivery in one piece; it may exceed the capacity by that much, so that a delivery never waits half done. A delivery without
// groups needs no room and does not wait.
func (q *Queue) Put(ctx context.Context, d trinity.Delivery) error {
	err := q.await(ctx, "room in the experience buffer (the trainer takes from it)", func() bool { return q.closed || len(d.Groups) == 0 || rollouts(q.pending) < q.capacity })
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	if q.closed {
		return trinity.ErrEnded
	}
	for _, g := range d.Groups {
		q.pending = append(q.pending, g...)
	}
	q.cursor = d.Cursor
	q.signal()
	return nil
}

// Take implements trinity.Source.
func (q *Queue) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	unit := "experiences"
	if q.ByRollout {
		unit = "rollouts"
	}
	err := q.await(ctx, fmt.Sprintf("%d %s (the explorer puts them)", n, unit), func() bool { return q.Count(q.pending) >= n || q.paused > published || q.closed })
	if err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	if q.closed && len(q.pending) == 0 {
		return nil, io.EOF
	}
	end := q.end(n)
	out := q.pending[:end:end]
	q.pending = append([]*trinity.Experience(nil), q.pending[end:]...)
	q.signal()
	return out, nil
}

// Count implements trinity.CountingSource.
func (q *Queue) Count(exps []*trinity.Experience) int {
	if q.ByRollout {
		return rollouts(exps)
	}
	return len(exps)
}

// end is where the first n of what Take counts end, or all that is pending.
func (q *Queue) end(n int) int {
	if !q.ByRollout {
		return min(n, len(q.pending))
	}
	for i := range q.pending {
		if begins(q.pending, i) {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return len(q.pending)
}

// rollouts counts them.
func rollouts(exps []*trinity.Experience) int {
	n := 0
	for i := range exps {
		if begins(exps, i) {
			n++
		}
	}
	return n
}

// begins tells whether experience i is of another rollout than the one before it.
func begins(exps []*trinity.Experience, i int) bool {
	if i == 0 {
		return true
	}
	before, id := exps[i-1].ID, exps[i].ID
	return before.Step != id.Step || before.Task != id.Task || before.Run != id.Run || before.Turn >= id.Turn
}

// Pause implements trinity.Buffer.
func (q *Queue) Pause(until int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused = until
	q.signal()
}

// Close implements trinity.Buffer.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
	return nil
}

// State implements trinity.Source.
func (q *Queue) State() (trinity.SourceState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return trinity.SourceState{Cursor: q.cursor, Pending: append([]*trinity.Experience(nil), q.pending...)}, nil
}

// Restore implements trinity.Source.
func (q *Queue) Restore(s trinity.SourceState) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pending, q.cursor = s.Pending, s.Cursor
	q.signal()
	return nil
}

// await blocks until ready holds and returns with the lock held; on error the lock is not held.
func (q *Queue) await(ctx context.Context, what string, ready func() bool) error {
	for {
		q.mu.Lock()
		if ready() {
			return nil
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
}

// signal wakes all waiters; the lock is held.
func (q *Queue) signal() {
	close(q.changed)
	q.changed = make(chan struct{})
}
