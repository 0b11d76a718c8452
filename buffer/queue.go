// Package buffer holds the stores between explorer and trainer. There are two: Queue gives each experience once, in order; Replay gives experiences by priority,
// and again. Both keep what is put in a Log, which is files (OpenLog) or tables of a database (OpenSQLLog).
package buffer

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
)

// Queue is a first-in, first-out buffer with a bounded number of rollouts. A rollout is the experiences of one run, its steps, as long as they follow one
// another in ascending turn. With a log, a delivery is durable before Put returns, and a run that resumes from a state gets again what was taken after it.
// Memory holds as much of the log as the queue is allowed; it reads the rest when its turn comes.
type Queue struct {
	// TakeTimeout bounds how long the trainer waits for a batch, PutTimeout how long explorers wait for room; 0 is no
	// limit. They are set before the queue is used.
	TakeTimeout, PutTimeout time.Duration

	capacity int   // rollouts, from which on Put waits
	memory   int64 // bytes, from which on experiences stay in the log only

	intake
	window          // what is in memory
	unread int64    // the first record of the log that is not in memory
	behind int      // rollouts of that record and later ones
	next   position // in the log, after what was taken last
}

// NewQueue makes an empty queue that blocks Put while it holds capacity rollouts or more. log may be nil: then the queue is in memory alone. Restore reads what
// the log has. The queue closes the log.
func NewQueue(capacity int, memory int64, log Log) *Queue {
	q := &Queue{capacity: capacity, memory: memory, intake: newIntake(log)}
	if log != nil {
		_, q.unread = log.Bounds()
	}
	return q
}

// Sink implements trinity.Buffer. Put may exceed the capacity by one delivery, so that no delivery is cut. A delivery without groups needs no room and
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
	record, err := q.write(ctx, explorer, d)
	if err != nil {
		return err
	}
	q.keep(d, record)
	q.signal()
	return nil
}

// keep holds the delivery in memory, unless an earlier one is in the log only, or memory is full.
func (q *Queue) keep(d trinity.Delivery, record int64) {
	if q.log != nil && (q.unread < record || q.bytes >= q.memory) {
		q.behind += rollouts(slices.Concat(d.Groups...))
		return
	}
	q.holdAll(d.Groups, d.Needs, position{Record: record})
	q.unread = record + 1
}

// Take implements trinity.Source.
func (q *Queue) Take(ctx context.Context, want trinity.Want) (trinity.Taken, error) {
	var end int
	var failed error
	err := q.awaitBatch(ctx, q.TakeTimeout, want, q.held, func() bool {
		if failed = q.fetch(ctx, want); failed != nil {
			return true
		}
		var whole bool
		end, whole = q.end(want.N, want.Rollouts, want.Published)
		return whole || end < len(q.pending) || q.barred(want.Published) || q.ended()
	})
	if err != nil {
		return trinity.Taken{}, err
	}
	defer q.mu.Unlock()
	if failed != nil {
		return trinity.Taken{}, fmt.Errorf("experience buffer: %w", failed)
	}
	if q.ended() && len(q.pending) == 0 {
		return trinity.Taken{}, io.EOF
	}
	out, after := q.take(end)
	if end > 0 {
		q.next = after
	}
	q.signal()
	return trinity.Taken{Groups: out}, nil
}

// fetch reads records that are in the log only until memory holds what is wanted.
func (q *Queue) fetch(ctx context.Context, want trinity.Want) error {
	if q.log == nil || q.closed {
		return nil
	}
	for _, next := q.log.Bounds(); q.unread < next && q.window.held(want.Rollouts) < want.N; {
		if err := q.load(ctx, position{Record: q.unread}); err != nil {
			return err
		}
	}
	return nil
}

// load reads the experiences of the first record that is not in memory, from a position in it on.
func (q *Queue) load(ctx context.Context, at position) error {
	r, err := q.log.Read(ctx, at.Record, at.Index, math.MaxInt)
	if err != nil {
		return err
	}
	q.holdAll(r.Groups, r.Needs, at)
	q.unread, q.behind = at.Record+1, q.behind-r.Rollouts
	return nil
}

// held says what the queue holds and what its explorers are about to do, for the error of a wait.
func (q *Queue) held() string { return fmt.Sprintf("%d rollouts%s", q.rollouts+q.behind, q.states()) }
