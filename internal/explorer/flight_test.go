package explorer

import (
	"context"
	"errors"
	"fmt"
	"github.com/trinity-go/trinity/trinitytest"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/weights"
)

// unequal makes rollouts of even rows take 3 s and those of odd rows 1 s, in fake time.
func unequal(_ context.Context, task *trinity.Task, _ int) error {
	time.Sleep(time.Duration(3-2*(task.Index%2)) * time.Second)
	return nil
}

// flying returns an explorer with two slots and two tasks per step, one rollout each.
func flying(t *testing.T, q *buffer.Queue, inFlight int, steps int64, before func(context.Context, *trinity.Task, int) error) *Explorer {
	t.Helper()
	e := newExplorer(t, q, steps)
	e.opts.Agenda = NewAgenda(mix(t, newTaskset(100, 1, onePull{before: before})), nil, 2)
	e.opts.EvalTasksets, e.opts.StepsInFlight = nil, inFlight
	e.opts.Runner.Slots, e.opts.Runner.Timeout = NewSlots(2, 2), time.Hour
	e.opts.Pace = Pace{Style: "fully_async", Interval: 1, MaxStaleness: math.Inf(1), PerStep: 2, PerBatch: 2}
	return e
}

// While a step's longest rollout runs, the next step uses the free slots. The explorer still
// delivers steps in order.
func TestStepsOverlap(t *testing.T) {
	for inFlight, seconds := range map[int]float64{
		1: 12,
		2: 8, // 0–3 and 0–1, 1–4 and 3–4, 4–7 and 4–5, 5–8 and 7–8: of two slots none is ever idle
		4: 8,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(100, 0, nil)
			var now, most atomic.Int32
			e := flying(t, q, inFlight, 4, func(ctx context.Context, task *trinity.Task, run int) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return unequal(ctx, task, run)
			})
			var took []float64
			e.opts.Recorder = logging(func(_ int64, m trinity.Metrics) error {
				took = append(took, m["time/explore_step"])
				return nil
			})
			start := time.Now()
			if err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start).Seconds(); got != seconds || fmt.Sprint(took) != "[3 3 3 3]" || most.Load() != 2 {
				t.Errorf("%d steps in flight: %v s, steps of %v, %d rollouts at once; want %v, 3 each, 2", inFlight, got, took, most.Load(), seconds)
			}
			state, _ := q.State()
			if got, want := tasksOf(state.Pending...), "1:arms/0 1:arms/1 2:arms/2 2:arms/3 3:arms/4 3:arms/5 4:arms/6 4:arms/7 "; got != want {
				t.Errorf("%d steps in flight: delivered %s, want %s", inFlight, got, want)
			}
		})
	}
}

// If nobody takes from the buffer, the explorer begins no more steps than the window; a cancelled
// run leaves nothing running.
func TestFullBufferStopsNewSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := buffer.NewQueue(1, 0, nil)
		var begun atomic.Int32
		e := flying(t, q, 3, 100, func(context.Context, *trinity.Task, int) error { begun.Add(1); return nil })
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- e.Run(ctx) }()
		for taken := range int32(3) {
			synctest.Wait()
			if got, want := begun.Load(), 2*(1+3+taken); got != want { // one step in the buffer, three in flight
				t.Errorf("after %d batches %d rollouts have begun, want %d", taken, got, want)
			}
			if _, err := trinitytest.Take(ctx, q, 2, 0); err != nil {
				t.Fatal(err)
			}
		}
		stopped := errors.New("stopped")
		cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("got %v", err)
		}
	})
}

// An evaluation begins after all earlier steps are delivered, and no step begins before it has
// ended.
func TestEvaluationHasTheModelForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := buffer.NewQueue(100, 0, nil)
		var rollouts, evals atomic.Int32
		e := flying(t, q, 4, 6, func(ctx context.Context, task *trinity.Task, run int) error {
			rollouts.Add(1)
			defer rollouts.Add(-1)
			if evals.Load() > 0 {
				t.Errorf("%s runs beside an evaluation", task.ID)
			}
			return unequal(ctx, task, run)
		})
		e.opts.EvalInterval = 3
		e.opts.EvalTasksets = []*Taskset{newTaskset(4, 1, onePull{before: func(ctx context.Context, task *trinity.Task, run int) error {
			evals.Add(1)
			defer evals.Add(-1)
			if step := e.opts.Agenda.Step(); rollouts.Load() > 0 || step%3 != 0 {
				t.Errorf("an evaluation runs beside %d rollouts, after step %d", rollouts.Load(), step)
			}
			return unequal(ctx, task, run)
		}})}
		start := time.Now()
		if err := e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Two times three steps of 4 s in two slots: 0–3 0–1, 1–4 3–4, 4–7 4–5; and 0–3 0–1, 1–4
		// 3–4 of an evaluation.
		if got := time.Since(start).Seconds(); got != 2*(7+4) {
			t.Errorf("took %v s", got)
		}
	})
}

// trainer takes batches and publishes a version for each at once, until the buffer is empty.
func trainer(ctx context.Context, q *buffer.Queue, sync *weights.Memory, batch int) error {
	defer sync.TrainerDone()
	for version := int64(0); ; version++ {
		exps, err := trinitytest.Take(ctx, q, batch, version)
		if err != nil || len(exps) == 0 {
			return err
		}
		if err := sync.Publish(ctx, version+1); err != nil {
			return err
		}
	}
}

// offering is an engine whose versions are in use at once.
type offering struct {
	engine.Trainer
	version atomic.Int64
}

func (o *offering) Offer(_ context.Context, v int64) error { o.version.Store(v); return nil }

func (o *offering) Adopt(context.Context) (int64, error) { return o.version.Load(), nil }

// noted is a sink that records the calls to it.
type noted struct {
	trinity.Sink
	said []string
}

func (n *noted) Put(ctx context.Context, d trinity.Delivery) error {
	n.said = append(n.said, fmt.Sprint("put ", d.Needs))
	return n.Sink.Put(ctx, d)
}

func (n *noted) Pause(ctx context.Context, until int64) error {
	n.said = append(n.said, fmt.Sprint("pause ", until))
	return n.Sink.Pause(ctx, until)
}

// A step begins once there is a version that will be new enough. The deadline for a version does
// not run during rollouts: sync_timeout here is much shorter than a step.
func TestStalenessWithStepsInFlight(t *testing.T) {
	for _, c := range []struct {
		staleness float64
		seconds   float64 // of 6 steps
	}{
		{1, 18}, // one after the other
		{2, 12}, // 24 s of rollouts in two slots
		{math.Inf(1), 12},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(100, 0, nil)
			publisher := &offering{}
			sync := weights.NewMemory(publisher, 0, weights.AtOnce, time.Second)
			var e *Explorer
			e = flying(t, q, 2, 6, func(ctx context.Context, task *trinity.Task, run int) error {
				step := int64(task.Index/2 + 1)
				if got, want := publisher.version.Load(), e.opts.Pace.Required(step); got < want {
					t.Errorf("staleness %v: step %d begins with version %d, want %d at least", c.staleness, step, got, want)
				}
				return unequal(ctx, task, run)
			})
			sink := &noted{Sink: e.opts.Buffer}
			e.opts.Buffer, e.opts.Weights, e.opts.Pace.MaxStaleness = sink, sync, c.staleness
			start := time.Now()
			trained := make(chan error)
			go func() { trained <- trainer(t.Context(), q, sync, 2) }()
			if err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start).Seconds(); got != c.seconds {
				t.Errorf("staleness %v: %v s, want %v", c.staleness, got, c.seconds)
			}
			if err := <-trained; err != nil && !strings.Contains(err.Error(), "EOF") {
				t.Error(err)
			}
			var want []string
			for step := range int64(6) {
				need := e.opts.Pace.Required(step + 1)
				want = append(want, fmt.Sprint("pause ", need), fmt.Sprint("put ", need))
			}
			if !slices.Equal(sink.said, want) { // a pause belongs to the next step to deliver, not to the next one to begin
				t.Errorf("staleness %v: the buffer was told %v, want %v", c.staleness, sink.said, want)
			}
		})
	}
}

// A failed engine ends the run at once, even if earlier steps are in flight, and leaves none of
// them running.
func TestEngineFailureAheadEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := flying(t, buffer.NewQueue(100, 0, nil), 2, 6, func(ctx context.Context, task *trinity.Task, _ int) error {
			switch task.Index {
			case 0:
				<-ctx.Done()
				return context.Cause(ctx)
			case 3:
				return &trinity.EngineError{Err: errors.New("out of memory")}
			}
			return nil
		})
		start := time.Now()
		err := e.Run(t.Context())
		var failed *trinity.EngineError
		if !errors.As(err, &failed) || !strings.HasPrefix(err.Error(), "explorer step 2: ") || time.Since(start) > 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// Three consecutive steps without a valid reward end the run, even if later steps are in flight.
func TestFailedStepsAreCountedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := buffer.NewQueue(100, 0, nil)
		e := flying(t, q, 3, 100, func(ctx context.Context, task *trinity.Task, run int) error {
			if task.Index >= 4 { // from step 3 on
				return errors.New("broken tool")
			}
			return unequal(ctx, task, run)
		})
		err := e.Run(t.Context())
		want := "explorer step 5: all 2 rollouts of this step failed or have no valid reward, as did those of the 2 steps before"
		if err == nil || !strings.HasPrefix(err.Error(), want) || e.opts.Agenda.Step() != 4 {
			t.Errorf("after step %d: %v", e.opts.Agenda.Step(), err)
		}
	})
}
