package explorer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// flight is a step in flight.
type flight struct {
	step     int64
	version  int64         // that the step began with
	waited   time.Duration // for that version
	rollouts *stepRollouts

	outcomes []*outcome
	took     time.Duration
	tokens   int64         // sampled meanwhile, by concurrent steps too
	landed   chan struct{} // closed when all rollouts have succeeded or failed, without an engine failure
	over     chan struct{} // closed when the step is delivered, and evaluated if an evaluation is due
}

// exploreAll explores the remaining steps, StepsInFlight of them at once. One goroutine begins steps
// as versions and slots become available; another ends them in order.
//
// Unlike Trinity-RFT, which runs the tasks of all steps one by one in order, the explorer ends a
// step as a whole, because operators, advantages and metrics see all groups of a step.
func (e *Explorer) exploreAll(ctx context.Context) error {
	eg, ctx := errgroup.WithContext(ctx)
	begun := make(chan *flight, e.window())
	next, total := e.opts.Agenda.Step()+1, e.opts.TotalSteps
	eg.Go(func() error {
		var open []*flight
		for step := next; step <= total; step++ {
			for ; len(open) > 0 && open[0].step <= e.after(step); open = open[1:] {
				if _, err := receive(ctx, open[0].over); err != nil {
					return err
				}
			}
			f, err := e.begin(ctx, step)
			if errors.Is(err, errQueueEnded) {
				break
			}
			if err != nil {
				return fmt.Errorf("explorer step %d: %w", step, err)
			}
			open = append(open, f)
			begun <- f
			eg.Go(func() error { return e.land(f) })
		}
		close(begun)
		return nil
	})
	eg.Go(func() error {
		for step := next; step <= total; step++ {
			f, err := e.first(ctx, step, begun)
			if err == nil && f == nil {
				return e.endQueue(ctx, step-1)
			}
			if err == nil {
				err = e.end(ctx, f)
			}
			if err != nil {
				return fmt.Errorf("explorer step %d: %w", step, err)
			}
			close(f.over)
		}
		return nil
	})
	return eg.Wait()
}

// window returns how many steps may be in flight.
func (e *Explorer) window() int64 { return max(1, min(int64(e.opts.StepsInFlight), e.opts.TotalSteps)) }

// after returns the last step that must be over before step begins. An evaluation has the model for
// itself unless it runs beside the steps. The explorer does not wait for a version that needs a step
// in flight: the trainer's deadline for that version would pass during rollouts.
func (e *Explorer) after(step int64) int64 {
	last := max(step-e.window(), e.opts.Pace.restsOn(step))
	for evaluated := step - 1; evaluated > last; evaluated-- {
		if e.pausesAfter(evaluated) {
			return evaluated
		}
	}
	return last
}

// receive waits for a value, or for a channel to be closed, until ctx ends.
func receive[T any](ctx context.Context, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// begin waits for the version of a step, then for its tasks, and until all its rollouts have begun.
func (e *Explorer) begin(ctx context.Context, step int64) (*flight, error) {
	f := &flight{step: step, landed: make(chan struct{}), over: make(chan struct{})}
	var err error
	if f.version, f.waited, err = e.weights(ctx, step); err != nil {
		return nil, err
	}
	jobs, err := e.jobs(ctx, step)
	if err != nil {
		return nil, err
	}
	if e.opts.Agenda.tasks.queue != nil && e.opts.Pace.Newest(step) { // the tasks may have come much later
		if f.version, _, err = e.weights(ctx, step); err != nil {
			return nil, err
		}
	}
	f.rollouts = e.opts.Runner.start(ctx, step, jobs)
	return f, nil
}

// jobs waits for the tasks of a step, unless the trainer ends.
func (e *Explorer) jobs(ctx context.Context, step int64) ([]job, error) {
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-e.opts.Enough:
			cancel(trinity.ErrEnded)
		case <-waiting.Done():
		}
	}()
	return e.opts.Agenda.jobs(waiting, step)
}

// land waits for the rollouts of a step.
func (e *Explorer) land(f *flight) (err error) {
	if f.outcomes, err = f.rollouts.wait(); err != nil {
		return fmt.Errorf("explorer step %d: %w", f.step, err)
	}
	f.took, f.tokens = time.Since(f.rollouts.at), e.opts.Runner.Slots.sampled.Load()-f.rollouts.before
	close(f.landed)
	return nil
}

// first waits for the rollouts of the oldest step in flight, which is step. It returns nil if the
// queue of tasks has ended before that step.
func (e *Explorer) first(ctx context.Context, step int64, begun <-chan *flight) (*flight, error) {
	if err := e.pause(ctx, step); err != nil {
		return nil, err
	}
	f, err := receive(ctx, begun)
	if err != nil || f == nil {
		return nil, err
	}
	_, err = receive(ctx, f.landed)
	return f, err
}

// end delivers a step and evaluates if an evaluation is due.
func (e *Explorer) end(ctx context.Context, f *flight) error {
	if err := failRollouts.Hit(""); err != nil {
		return err
	}
	metrics := e.measure(f)
	record := trinity.Record{Step: f.step, Metrics: metrics, Samples: samples(f.outcomes)}
	if err := e.warn(f.step, f.outcomes); err != nil {
		return err
	}
	e.reportEqual(f.outcomes, record)
	e.reportNoCalls(record)
	e.opts.Agenda.feedback(f.outcomes)
	groups, err := e.process(ctx, f.step, f.outcomes, metrics)
	if err != nil {
		return err
	}
	// A resumed run does not repeat a step whose delivery is in a checkpoint. So the explorer logs
	// the step's metrics before the delivery, or sends them with it.
	if e.pausesAfter(f.step) {
		if err := e.deliver(ctx, f.step, groups, metrics); err != nil {
			return err
		}
		return e.evaluateAfter(ctx, record)
	}
	if err := e.opts.Recorder.Log(ctx, record); err != nil {
		return err
	}
	if e.evaluatesAfter(f.step) {
		if err := e.evaluateBeside(ctx, f.step); err != nil {
			return err
		}
	}
	return e.deliver(ctx, f.step, groups, nil)
}

// endQueue ends a run whose queue of tasks has none left after its last step. It evaluates then, as
// after the last step of any run.
func (e *Explorer) endQueue(ctx context.Context, last int64) error {
	t := e.opts.Agenda.tasks
	after := fmt.Sprintf("explore step %d was the last one", last)
	if last == 0 {
		after = "there is nothing to explore"
	}
	e.opts.Recorder.Say(fmt.Sprintf("the queue of taskset %s has ended after %d rows, so %s",
		t.sets[0].Template.Taskset, t.queue.queue.Len(), after))
	switch {
	case last == 0, len(e.opts.EvalTasksets) == 0, e.opts.EvalInterval == 0, e.pausesAfter(last):
		return nil
	case e.evaluatesAfter(last): // beside the steps; the state owes that evaluation until it ends
		if err := e.evaluated(ctx); err != nil {
			return err
		}
		return e.deliver(ctx, last, nil, nil)
	}
	return e.evaluateAfter(ctx, trinity.Record{Step: last, Metrics: trinity.Metrics{}})
}

// measure returns the metrics of a step's rollouts.
func (e *Explorer) measure(f *flight) trinity.Metrics {
	m := trinity.Metrics{
		"rollout/model_version": float64(f.version), "rollout/tokens_per_second": float64(f.tokens) / f.took.Seconds(),
		"time/explore_step": f.took.Seconds(), "time/explorer_sync_interval": f.waited.Seconds(),
	}
	m.Merge("rollout/", e.opts.Agenda.tasks.metrics(f.outcomes))
	e.measureDrafts(m)
	if share, ok := e.collapsed(f.outcomes); ok {
		m[CollapsedShare] = share
	}
	return m
}
