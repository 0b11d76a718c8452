package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/selector"
)

// Queue is a dataset whose rows arrive while the run goes on.
type Queue interface {
	selector.Dataset // of the rows that are there
	// Await waits until there are n rows, or until the queue has ended.
	Await(ctx context.Context, n int) error
	// Digest returns a sum of the first n rows. Resume returns an error unless the first n rows have
	// this digest.
	Digest(n int) string
	Resume(n int, digest string) error
}

// Arrivals is the selector of a taskset whose rows come from a queue: it takes the explorer's share
// of them in order, each once. A [Mix] of it has no epochs and no other taskset.
type Arrivals struct {
	queue Queue
	share *Share
	taken int // rows of the share
}

// NewArrivals returns the selector of an explorer's share of a queue.
func NewArrivals(q Queue, share *Share) *Arrivals { return &Arrivals{queue: q, share: share} }

// errQueueEnded says that a queue of tasks has ended and all its rows are taken.
var errQueueEnded = errors.New("the queue of tasks has ended")

// queueError is an error of a queue of tasks, such as that no row comes.
type queueError struct{ error }

func (e queueError) Unwrap() error { return e.error }

// LacksTasks reports whether an explorer ended because of its queue of tasks. What it has delivered
// may be trained on meanwhile, and it resumes after that.
func LacksTasks(err error) bool { return errors.As(err, &queueError{}) }

// await waits until Next has n rows or, at the end of the queue, at least one.
func (a *Arrivals) await(ctx context.Context, n int) error {
	if err := a.queue.Await(ctx, a.whole(a.taken+n)); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return queueError{err}
	}
	if a.share.Len() <= a.taken {
		return errQueueEnded
	}
	return nil
}

// whole returns how many rows the queue has at least if the share has n.
func (a *Arrivals) whole(n int) int {
	if n == 0 {
		return 0
	}
	return a.share.number(n-1) + 1
}

// Start implements [selector.Selector].
func (a *Arrivals) Start(selector.Dataset) error { return nil }

// Next implements [selector.Selector]. It returns fewer rows at the end of the queue.
func (a *Arrivals) Next(n int) ([]int, error) {
	rows := make([]int, min(n, a.share.Len()-a.taken))
	for i := range rows {
		rows[i] = a.taken + i
	}
	a.taken += len(rows)
	return rows, nil
}

// Feedback implements [selector.Selector].
func (a *Arrivals) Feedback(map[int]float64) {}

// savedArrivals is the state of [Arrivals].
type savedArrivals struct {
	Taken  int    `json:"taken"`
	Digest string `json:"digest"` // of the queue up to the row taken last
}

// State implements [selector.Selector].
func (a *Arrivals) State() (json.RawMessage, error) {
	return json.Marshal(savedArrivals{a.taken, a.queue.Digest(a.whole(a.taken))})
}

// Restore implements [selector.Selector]. The rows that were taken must be there as they were.
func (a *Arrivals) Restore(state json.RawMessage) error {
	var s savedArrivals
	if err := json.Unmarshal(state, &s); err != nil || s.Taken < 0 {
		return fmt.Errorf("selector state: %s is none of a queue: resume with the same data, or start a new run", state)
	}
	if err := a.queue.Resume(a.whole(s.Taken), s.Digest); err != nil {
		return err
	}
	a.taken = s.Taken
	return nil
}
