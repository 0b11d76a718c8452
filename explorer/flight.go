package explorer

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// flight is a step under way.
type flight struct {
	step     int64
	version  int64         // that it began with
	waited   time.Duration // for that
	rollouts *started

	outcomes []*outcome
	took     time.Duration
	tokens   int64         // that were sampled meanwhile, by steps beside it too
	landed   chan struct{} // closed when the rollouts have ended well
	over     chan struct{} // closed when the step is delivered, and evaluated where that is due
}

// exploreAll explores the steps that are left, UnderWay at once: one side begins them as versions and slots are there, the other ends them in their order.
//
// Unlike Trinity-RFT, which takes up the tasks of all steps one by one in their order, a step is ended as a whole, because operators, advantages and metrics see
// all groups of a step.
func (e *Explorer) exploreAll(ctx context.Context) error {
	eg, ctx := errgroup.WithContext(ctx)
	begun := make(chan *flight, e.window())
	next := e.step + 1
	eg.Go(func() error {
		var open []*flight
		for step := next; step <= e.TotalSteps; step++ {
			for ; len(open) > 0 && open[0].step <= e.after(step); open = open[1:] {
				if _, err := receive(ctx, open[0].over); err != nil {
					return err
				}
			}
			f, err := e.begin(ctx, step)
			if err != nil {
				return fmt.Errorf("explorer step %d: %w", step, err)
			}
			open = append(open, f)
			begun <- f
			eg.Go(func() error { return e.land(f) })
		}
		return nil
	})
	eg.Go(func() error {
		for step := next; step <= e.TotalSteps; step++ {
			f, err := e.first(ctx, step, begun)
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

// window is how many steps there may be at once.
func (e *Explorer) window() int64 { return max(1, min(int64(e.UnderWay), e.TotalSteps)) }

// after is the step that is to be over before another begins. An evaluation has the model for itself. Nobody waits for a version that rests on a step which is
// under way: the time that the trainer has for it would run while the explorer rolls out.
func (e *Explorer) after(step int64) int64 {
	last := max(step-e.window(), e.Pace.restsOn(step))
	for evaluated := step - 1; evaluated > last; evaluated-- {
		if e.evaluatesAfter(evaluated) {
			return evaluated
		}
	}
	return last
}

// receive waits for a value, or for a channel to be closed, as long as ctx lets it.
func receive[T any](ctx context.Context, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
}

// begin waits for the version of a step, and until all its rollouts have a slot.
func (e *Explorer) begin(ctx context.Context, step int64) (*flight, error) {
	f := &flight{step: step, landed: make(chan struct{}), over: make(chan struct{})}
	var err error
	if f.version, f.waited, err = e.weights(ctx, step); err != nil {
		return nil, err
	}
	tasks, err := e.tasksOf(step)
	if err != nil {
		return nil, err
	}
	f.rollouts = e.Runner.start(ctx, step, e.Tasks.workflow(), tasks)
	return f, nil
}

// land waits for the rollouts of a step.
func (e *Explorer) land(f *flight) (err error) {
	if f.outcomes, err = f.rollouts.wait(); err != nil {
		return fmt.Errorf("explorer step %d: %w", f.step, err)
	}
	f.took, f.tokens = time.Since(f.rollouts.at), e.Runner.Slots.sampled.Load()-f.rollouts.before
	close(f.landed)
	return nil
}

// first waits for the rollouts of the step that was begun first.
func (e *Explorer) first(ctx context.Context, step int64, begun <-chan *flight) (*flight, error) {
	if err := e.pause(ctx, step); err != nil {
		return nil, err
	}
	f, err := receive(ctx, begun)
	if err != nil {
		return nil, err
	}
	_, err = receive(ctx, f.landed)
	return f, err
}

// end delivers a step, with the evaluation that is due after it.
func (e *Explorer) end(ctx context.Context, f *flight) error {
	if err := failRollouts.Hit(""); err != nil {
		return err
	}
	metrics := e.measure(f)
	if err := e.warn(f.outcomes); err != nil {
		return err
	}
	e.feedback(f.outcomes)
	groups, err := e.process(ctx, f.step, f.outcomes, metrics)
	if err != nil {
		return err
	}
	// A step whose delivery is in a checkpoint is not run again. So its record is out before the delivery, or travels with it.
	if e.evaluatesAfter(f.step) {
		if err := e.deliver(ctx, f.step, groups, metrics); err != nil {
			return err
		}
		return e.evaluateAfter(ctx, f.step, metrics)
	}
	if err := e.Log(ctx, f.step, metrics); err != nil {
		return err
	}
	return e.deliver(ctx, f.step, groups, nil)
}

// measure is the metrics of a step's rollouts.
func (e *Explorer) measure(f *flight) trinity.Metrics {
	m := trinity.Metrics{
		"rollout/model_version": float64(f.version), "rollout/tokens_per_second": float64(f.tokens) / f.took.Seconds(),
		"time/explore_step": f.took.Seconds(), "time/explorer_sync_interval": f.waited.Seconds(),
	}
	m.Merge("rollout/", e.Tasks.metrics(f.outcomes))
	return m
}
