// Package buffer holds the stores between explorer and trainer.
package buffer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// Queue is a first-in, first-out buffer of one process, with a bounded number of rollouts. A rollout is the experiences of one run, its steps, as long as
// they follow one another in ascending turn. With a log, what was put is on the disk before Put returns, and is given again to a run that goes on from a
// state of before it was taken. Of what the log holds only so much is in memory as memory allows; the rest is read when its turn comes.
type Queue struct {
	// ByRollout makes Take count rollouts, of which it cuts none, in place of experiences. It is set before the queue is used.
	ByRollout bool
	// TakeTimeout and PutTimeout are how long the trainer waits for a batch, and the explorer for room; 0 is as long as it takes. They are set before the
	// queue is used.
	TakeTimeout, PutTimeout time.Duration

	capacity int   // rollouts, from which on Put waits
	memory   int64 // bytes, from which on experiences stay in the log only
	log      *durable.Log

	gate
	window                    // what is in memory
	later  *durable.LogReader // reads what is in the log and not in memory; nil if nothing is
	behind int                // rollouts that later will give
	cursor json.RawMessage    // of the last delivery
	next   position           // in the log, after what was taken last
	record []byte             // room for the next
	paused int64              // version that the explorer waits for
	closed bool
}

// NewQueue makes an empty queue that blocks Put while it holds capacity rollouts or more; Restore gives it what the log has. Without a log (nil) it
// is in memory alone.
func NewQueue(capacity int, memory int64, log *durable.Log) *Queue {
	return &Queue{capacity: capacity, memory: memory, log: log, gate: newGate()}
}

// Resume implements trinity.Buffer.
func (q *Queue) Resume() (json.RawMessage, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cursor, nil
}

// Put adds the delivery in one piece; it may exceed the capacity by that much, so that a delivery never waits half done. A delivery without
// groups needs no room and does not wait.
func (q *Queue) Put(ctx context.Context, d trinity.Delivery) error {
	ctx, cancel := withTimeout(ctx, q.PutTimeout, "synchronizer.sync_timeout")
	defer cancel()
	const what = "the trainer to make room in the experience buffer"
	err := q.await(ctx, what, q.held, func() bool {
		return q.closed || len(d.Groups) == 0 || q.rollouts+q.behind < q.capacity
	})
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	if q.closed {
		return trinity.ErrEnded
	}
	record, err := q.write(d)
	if err != nil {
		return fmt.Errorf("experience buffer: %w", err)
	}
	q.cursor = d.Cursor
	q.keep(d, record)
	q.signal()
	return nil
}

// write makes the delivery a record of the log, and says which.
func (q *Queue) write(d trinity.Delivery) (int64, error) {
	if q.log == nil {
		return 0, nil
	}
	var err error
	if q.record, err = appendDelivery(q.record[:0], d); err != nil {
		return 0, err
	}
	return q.log.Append(q.record)
}

// keep holds the delivery in memory, unless something before it is in the log only, or memory is full.
func (q *Queue) keep(d trinity.Delivery, record int64) {
	if q.later == nil && q.log != nil && q.bytes >= q.memory {
		q.later = durable.ReadLog(q.log.Dir(), record)
	}
	exps := slices.Concat(d.Groups...)
	if q.later != nil {
		q.behind += rollouts(exps)
		return
	}
	q.holdAll(exps, d.Needs, position{Record: record})
}

// Take implements trinity.Source.
func (q *Queue) Take(ctx context.Context, n int, published int64) ([]*trinity.Experience, error) {
	unit := "experiences"
	if q.ByRollout {
		unit = "rollouts"
	}
	ctx, cancel := withTimeout(ctx, q.TakeTimeout, "buffer.trainer_input.experience_buffer.max_read_timeout")
	defer cancel()
	var end int
	var failed error
	err := q.await(ctx, fmt.Sprintf("the explorer to put %d %s into the experience buffer", n, unit), q.held, func() bool {
		if failed = q.fetch(n); failed != nil {
			return true
		}
		var whole bool
		end, whole = q.end(n, q.ByRollout, published)
		barred := q.paused > published || end < len(q.pending)
		return whole || barred || q.closed
	})
	if err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	if failed != nil {
		return nil, fmt.Errorf("experience buffer: %w", failed)
	}
	if q.closed && len(q.pending) == 0 {
		return nil, io.EOF
	}
	out, after := q.take(end)
	if end > 0 {
		q.next = after
	}
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

// held says what a wait is for more of.
func (q *Queue) held() string { return fmt.Sprintf("%d rollouts", q.rollouts+q.behind) }
