// Package buffer holds the two stores between explorer and trainer. Queue gives each experience
// once, in order. Replay gives experiences by priority, and more than once. Both keep the
// deliveries in a Log: files (OpenLog) or tables of a database (openSQLLog).
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

// Queue is a first-in, first-out buffer with a bounded number of rollouts. A rollout is the steps
// of one run, as long as they follow one another in ascending turn. With a log, a delivery is
// durable before Put returns, and a run that resumes from a state gets again the experiences taken
// after it. The queue keeps as much of the log in memory as it may, and reads the rest when its
// turn comes.
//
// Unlike Trinity-RFT: capacity counts rollouts and not deliveries, and a read that times out loses
// nothing, because the experiences of an incomplete batch stay in the queue.
type Queue struct {
	// TakeTimeout bounds how long the trainer waits for a batch, PutTimeout how long explorers wait
	// for room; 0 is no limit. They are set before the queue is used.
	TakeTimeout, PutTimeout time.Duration

	capacity int   // rollouts; Put waits while the queue holds as many or more
	memory   int64 // bytes; with as many or more in memory, further experiences stay in the log

	intake
	window          // the experiences in memory
	unread int64    // the first record of the log that is not in memory
	behind int      // rollouts of that record and later ones
	next   position // in the log, after the experience taken last
}

// NewQueue returns an empty queue that blocks Put while it holds capacity rollouts or more. Without
// a log (nil), the queue is only in memory. Restore reads the log. The queue closes the log.
func NewQueue(capacity int, memory int64, log Log) *Queue {
	q := &Queue{capacity: capacity, memory: memory, intake: newIntake(log)}
	if log != nil {
		_, q.unread = log.Bounds()
	}
	return q
}

// Sink implements trinity.Buffer. Put may exceed the capacity by one delivery, so that it cuts
// none. A delivery without groups needs no room and does not wait.
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

// keep holds the delivery in memory, unless memory is full or an earlier delivery is only in the
// log.
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

// fetch reads records into memory until memory holds as much as want asks for.
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
func (q *Queue) load(ctx context.Context, pos position) error {
	r, err := q.log.Read(ctx, pos.Record, pos.Index, math.MaxInt)
	if err != nil {
		return err
	}
	q.holdAll(r.Groups, r.Needs, pos)
	q.unread, q.behind = pos.Record+1, q.behind-r.Rollouts
	return nil
}

// held returns in words how much the queue holds and what its explorers wait for, for errors.
func (q *Queue) held() string { return fmt.Sprintf("%d rollouts%s", q.rollouts+q.behind, q.states()) }
