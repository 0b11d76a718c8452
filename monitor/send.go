package monitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/retry"
)

// begin calls the sink's Begin once. status is "" while the run goes on.
func (f *Follower) begin(ctx context.Context, status Status) error {
	if f.begun {
		return nil
	}
	if err := f.sink.Begin(ctx, f.run); err != nil {
		return err
	}
	f.begun = true
	f.tail.at.Status, f.tail.at.Told = status, false // the service has a run that goes on
	return nil
}

// sendAll sends all that is in the run's files and that the sink takes, and returns the number of records.
// It tells the service how the run ended, if the service does not know.
func (f *Follower) sendAll(ctx context.Context) (sent int64, err error) {
	if sent, err = f.sendKind(ctx, f.nextRecords); err != nil {
		return sent, err
	}
	var errs []error
	for _, next := range []nextBatch{f.nextSpans, f.nextLogs, f.nextTable} {
		_, err := f.sendKind(ctx, next)
		errs = append(errs, err)
	}
	at := f.tail.at
	if err := errors.Join(errs...); err != nil || at.Status == "" || at.Told {
		return sent, err
	}
	if err := f.begin(ctx, at.Status); err != nil {
		return sent, err
	}
	if err := f.sink.Tell(ctx, at.Status); err != nil {
		return sent, err
	}
	at.Told = true
	return sent, f.tail.keep(at)
}

// nextBatch reads what comes next of a kind, and the position behind it. more is false if there is nothing
// behind the sink's position. An error beside more is about a damaged file, of which the sink gets no more.
type nextBatch func() (b Batch, then position, more bool, err error)

// sendKind sends all batches of a kind, and returns the number of their records.
func (f *Follower) sendKind(ctx context.Context, next nextBatch) (sent int64, err error) {
	for {
		b, then, more, err := next()
		if !more {
			return sent, err
		}
		if !f.begun {
			if err := f.begin(ctx, f.tail.at.Status); err != nil {
				return sent, err
			}
			continue // Begin may have moved the position
		}
		if err != nil {
			f.say("%v", err)
		}
		takes := f.sink.Takes()
		if len(b.Records)+len(b.Spans)+len(b.Logs)+len(b.Tables) > 0 {
			if err := f.sink.Send(ctx, b); err != nil {
				return sent, err
			}
		}
		if f.sink.Takes() != takes { // trinity sync may send the batch later
			continue
		}
		if err := f.tail.keep(then); err != nil {
			return sent, err
		}
		sent += int64(len(b.Records))
	}
}

// nextRecords returns the next records for the sink.
func (f *Follower) nextRecords() (Batch, position, bool, error) {
	records, then, err := f.tail.next()
	return Batch{First: f.tail.at.Records, Records: records}, then, len(records) > 0, err
}

// attempts is how often Sync tries to reach a service that makes no progress.
const attempts = 5

// argsOf returns the arguments that a run gave a monitor, except secrets, which Settings has as
// stars.
func (r *Run) argsOf(name string) map[string]any {
	args := map[string]any{}
	info, _ := Monitors.Explain(name) // an unknown name has no arguments
	for _, f := range info.Fields {
		for _, section := range []string{"", name + "."} {
			v, ok := r.Settings["monitor.monitor_args."+section+f.Key]
			if ok && !strings.Contains(fmt.Sprint(v), "***") {
				args[f.Key] = v
			}
		}
	}
	return args
}

// Sync sends a sink what it has not got of the run in the monitor directory dir, and how the run ended.
// It returns the number of records. say gets lines for people; it may be nil.
func Sync(ctx context.Context, dir, name string, args map[string]any, say func(string)) (sent int64, err error) {
	run, err := readRun(dir)
	if err != nil {
		return 0, err
	}
	run.Say = say
	m, err := Monitors.Build(name, run.argsOf(name), args)
	if err != nil {
		return 0, err
	}
	sink, ok := m.(Sink)
	if !ok {
		return 0, fmt.Errorf("monitor %s: it follows no file, so there is nothing to send", name)
	}
	f := sink.follower()
	f.name, f.run, f.sink = name, run, sink
	lock, err := durable.TakeLock(dir, "sink_"+name, "trinity sync")
	if err != nil {
		return 0, fmt.Errorf("%s: %w sends its records to %s", dir, err, name)
	}
	defer lock.Release()
	if err := f.openTail(); err != nil {
		return 0, err
	}
	pause := f.pause
	for failed := 0; ; {
		n, err := f.sendAll(ctx)
		if sent += n; n > 0 {
			failed, pause = 0, f.pause
		}
		if failed++; err == nil || !retry.IsTemporary(err) {
			return sent, err
		}
		if failed == attempts {
			return sent, fmt.Errorf("%w: the same command sends the rest once %s answers", err, name)
		}
		select {
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		case <-time.After(max(pause, retry.After(err))):
			pause = min(2*pause, maxPause)
		}
	}
}
