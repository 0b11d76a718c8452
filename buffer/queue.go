// Package buffer holds the stores between explorer and trainer.
package buffer

import (
	"context"
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
	Reading // set before the queue is used
	// PutTimeout is how long explorers wait for room; 0 is as long as it takes. It is set before the queue is used.
	PutTimeout time.Duration

	capacity int   // rollouts, from which on Put waits
	memory   int64 // bytes, from which on experiences stay in the log only

	intake
	window                    // what is in memory
	later  *durable.LogReader // reads what is in the log and not in memory; nil if nothing is
	behind int                // rollouts that later will give
	next   position           // in the log, after what was taken last
}

// NewQueue makes an empty queue that blocks Put while it holds capacity rollouts or more; Restore gives it what the log has. Without a log (nil) it
// is in memory alone.
func NewQueue(capacity int, memory int64, log *durable.Log) *Queue {
	return &Queue{capacity: capacity, memory: memory, intake: newIntake(log)}
}

// Sink implements trinity.Buffer. Its Put may exceed the capacity by a delivery, so that none waits half done; one without groups needs no room and
// does not wait.
func (q *Queue) Sink(explorer string) trinity.Sink { return &sink{&q.intake, explorer, q.put} }

func (q *Queue) put(ctx context.Context, explorer string, d trinity.Delivery) error {
	ctx, cancel := withTimeout(ctx, q.PutTimeout, "synchronizer.sync_timeout")
	defer cancel()
	closed := func() bool { return q.closed || q.explorer(explorer).closed }
	err := q.await(ctx, "the trainer to make room in the experience buffer", q.held, func() bool {
		return closed() || len(d.Groups) == 0 || q.rollouts+q.behind < q.capacity
	})
	if err != nil {
		return err
	}
	defer q.mu.Unlock()
	if closed() {
		return trinity.ErrEnded
	}
	record, err := q.write(explorer, d)
	if err != nil {
		return err
	}
	q.keep(d, record)
	q.signal()
	return nil
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
	var end int
	var failed error
	err := q.awaitBatch(ctx, &q.gate, n, q.held, func() bool {
		if failed = q.fetch(n); failed != nil {
			return true
		}
		var whole bool
		end, whole = q.end(n, q.ByRollout, published)
		return whole || end < len(q.pending) || q.barred(published) || q.ended()
	})
	if err != nil {
		return nil, err
	}
	defer q.mu.Unlock()
	if failed != nil {
		return nil, fmt.Errorf("experience buffer: %w", failed)
	}
	if q.ended() && len(q.pending) == 0 {
		return nil, io.EOF
	}
	out, after := q.take(end)
	if end > 0 {
		q.next = after
	}
	q.signal()
	return out, nil
}

// held says what a wait is for more of.
func (q *Queue) held() string { return fmt.Sprintf("%d rollouts", q.rollouts+q.behind) }
