package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/internal/wait"
)

// Status is how a run ended.
type Status = rundir.Status

// Ends of a run. A killed run has none.
const (
	Finished = rundir.Finished
	Failed   = rundir.Failed
	Stopped  = rundir.Stopped // by a person; it can resume
)

// Sink is a Monitor that brings a run to a service, or to the files of another program. It embeds a
// [Follower], which reads the run's files and calls the methods of the sink from a goroutine of its
// own, one at a time. So a service that is slow, or does not answer, delays no step, and a kill loses
// no record.
//
// If a method returns an error of [retry.Temporary], or of a [retry.Client] that is one, the
// follower tries again later; after any other error it leaves the rest to trinity sync.
type Sink interface {
	trinity.Monitor
	// Begin creates the run at the service. If the service has a run with this ID, Begin finds it.
	Begin(ctx context.Context, run Run) error
	// Takes returns what the service takes beside records. If Send finds that the service takes less,
	// Takes returns that from then on, and trinity sync may send the batch later.
	Takes() Parts
	// Send sends a batch; it ignores what the service cannot show. After an error the service may have
	// the batch, or a part of it. The batch then comes again, perhaps with more of its kind behind it.
	Send(ctx context.Context, b Batch) error
	// Tell tells the service how the run ended.
	Tell(ctx context.Context, status Status) error
	// Target returns the address or directory that gets the records, without secrets; "" if they stay
	// in the run's directory.
	Target() string

	follower() *Follower
}

// Parts are what a sink gets of a run beside its records.
type Parts struct {
	Spans  bool          // of the run's trace
	Logs   bool          // what the run says and which rollouts failed
	Tables bool          // rollouts of the train steps that the trace keeps
	Beat   time.Duration // pause between empty batches; 0 sends none
}

// Batch is what a sink gets next of a run: records, spans, logs or tables. An empty one says that the run
// still runs, for a service that takes a silent one for dead.
type Batch struct {
	First   int64 // how many records of the run came before Records
	Records []trinity.Record
	Process int // of the trace, which has the spans and the failed rollouts
	Spans   []trace.Span
	Logs    []LogRecord
	Tables  []Table // one for a train step; the sink does not get a step again that a resumed run repeats
}

// Follower is the part that all sinks have in common.
type Follower struct {
	CloseTimeout float64 `yaml:"close_timeout" range:"[0,inf]" doc:"seconds at the end of a run for what is not sent yet; see trinity sync"`

	name   string
	run    Run
	sink   Sink
	lock   *durable.Lock
	tail   *tail
	begun  bool
	status Status
	wake   chan struct{} // a record has come
	ending chan struct{} // closed by Close
	ended  chan struct{} // closed when the goroutine has ended
	cancel context.CancelCauseFunc
	pause  time.Duration // after the first failure
	once   sync.Once
}

// newFollower returns a Follower with its defaults, for a sink's constructor.
func newFollower() Follower { return Follower{CloseTimeout: 15, pause: firstPause} }

// Pauses between attempts to reach a service.
const maxPause = time.Minute

var firstPause = time.Second

func (f *Follower) follower() *Follower { return f }

// Target is that of a sink that writes to the run's directory.
func (*Follower) Target() string { return "" }

// Takes is that of a sink for records alone.
func (*Follower) Takes() Parts { return Parts{} }

// start begins to follow the run's metrics.jsonl.
func (f *Follower) start(name string, sink Sink, run Run) {
	f.name, f.sink, f.run = name, sink, run
	f.wake, f.ending, f.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	var ctx context.Context
	ctx, f.cancel = context.WithCancelCause(context.Background())
	go f.follow(ctx)
}

// Log implements [trinity.Monitor]. The jsonl monitor has written the record.
func (f *Follower) Log(context.Context, trinity.Record) error {
	select {
	case f.wake <- struct{}{}:
	default: // the goroutine has not yet seen the last one
	}
	return nil
}

// Close implements [trinity.Monitor]. It sends the remaining records, for at most CloseTimeout.
func (f *Follower) Close() error {
	f.once.Do(func() {
		close(f.ending)
		late := fmt.Errorf("close_timeout = %g s was too short", f.CloseTimeout)
		time.AfterFunc(wait.Seconds(f.CloseTimeout), func() { f.cancel(late) })
	})
	<-f.ended
	return nil
}

// follow sends records until Close.
func (f *Follower) follow(ctx context.Context) {
	defer close(f.ended)
	defer f.cancel(nil)
	pause, said := f.pause, false
	for !closed(f.ending) {
		err := f.drain(ctx, false)
		if err != nil && !said && !closed(f.ending) {
			f.say("%v; the run goes on, and the sink gets its records later", err)
		}
		if said = err != nil; !said {
			pause = f.pause
			f.waitForRecord(ctx)
			continue
		}
		var again <-chan time.Time // never, after an error that stays
		if retry.IsTemporary(err) {
			again = time.After(max(pause, retry.After(err)))
			pause = min(2*pause, maxPause)
		}
		select {
		case <-again:
		case <-f.ending:
		}
	}
	if err := f.finish(ctx); err != nil {
		f.say("%v; trinity sync %s --to %s sends what is missing", err, f.run.Dir, f.name)
	}
	if f.lock != nil {
		f.lock.Release()
	}
}

// waitForRecord waits for a record, or for Close. The service hears of the run meanwhile.
func (f *Follower) waitForRecord(ctx context.Context) {
	var beats <-chan time.Time                                    // never
	if pause := f.sink.Takes().Beat; pause > 0 && f.lock != nil { // else another process follows the file
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		beats = ticker.C
	}
	for {
		select {
		case <-f.wake:
			return
		case <-f.ending:
			return
		case <-beats:
			_ = f.sink.Send(ctx, Batch{}) // the next one may reach the service
		}
	}
}

// rest calls write with the records in the file that the service has not got. A sink that also writes
// files writes them there while it cannot reach the service. The position stays.
func (f *Follower) rest(write func(first int64, records []trinity.Record) error) error {
	for rest := *f.tail; ; {
		records, then, err := rest.next()
		if err != nil || len(records) == 0 {
			return err
		}
		if err := write(rest.at.Records, records); err != nil {
			return err
		}
		rest.at = then
	}
}

// finish sends what is left, until ctx ends.
func (f *Follower) finish(ctx context.Context) error {
	for pause := f.pause; ; pause = min(2*pause, maxPause) {
		err := f.drain(ctx, true)
		if err == nil || !retry.IsTemporary(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(max(pause, retry.After(err))):
		case <-ctx.Done():
			return err // it says more than that the time has passed
		}
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (f *Follower) say(format string, args ...any) {
	if f.run.Say != nil {
		f.run.Say("monitor " + f.name + ": " + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
	}
}

// drain sends all that is in the files, and at the end of the run how it ended. If another
// process follows the file for the same sink, drain leaves everything to it.
func (f *Follower) drain(ctx context.Context, ending bool) error {
	if f.lock == nil {
		lock, err := durable.TakeLock(f.run.Dir, "sink_"+f.name, "the run "+f.run.Name)
		if errors.As(err, new(durable.Held)) {
			return nil
		}
		if err != nil {
			return err
		}
		f.lock = lock
	}
	if f.tail == nil {
		if err := f.openTail(); err != nil {
			return err
		}
	}
	if at := f.tail.at; ending && f.status != "" && at.Status != f.status { // trinity sync may have to tell it
		at.Status, at.Told = f.status, false
		if err := f.tail.keep(at); err != nil {
			return err
		}
	}
	var status Status
	if ending {
		status = f.status
	}
	if err := f.begin(ctx, status); err != nil {
		return err
	}
	_, err := f.sendAll(ctx)
	return err
}

// openTail opens the file at the sink's position. It refuses a position in the records of another
// target, which has got what this one lacks.
func (f *Follower) openTail() error {
	t, err := openTail(f.run.Dir, f.name)
	if err != nil {
		return err
	}
	if to := f.sink.Target(); to != "" {
		if t.at.Records > 0 && t.at.To != "" && t.at.To != to {
			return fmt.Errorf("the records went to %s, not to %s: remove %s to send them all there", t.at.To, to, t.kept)
		}
		t.at.To = to
	}
	f.tail = t
	return nil
}
