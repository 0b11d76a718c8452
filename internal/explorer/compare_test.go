package explorer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/trinitytest"
)

// ranking is a workflow that calls itself to compare a group.
type ranking func(ctx context.Context) error

func (ranking) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return onePull{}.Run(ctx, r)
}

func (w ranking) Compare(ctx context.Context, _ *trinity.Rollout, _ trinity.Group) error {
	return w(ctx)
}

var errStopped = errors.New("stopped by a signal")

func TestCompareGroup(t *testing.T) {
	broken := &trinity.EngineError{Err: errors.New("out of memory")}
	for _, c := range []struct {
		name     string
		compare  ranking
		stops    bool
		ends     error  // of the run
		failed   string // the comparison
		compared bool   // the group is there
	}{
		{name: "ranked", compare: func(context.Context) error { return nil }, compared: true},
		{
			name: "a judge that is away", compare: func(context.Context) error { return errors.New("no judge") },
			failed: "task arms/0, comparing its group: no judge",
		},
		{name: "a panic", compare: func(context.Context) error { panic("index out of range") }, failed: "workflow panicked: index out of range"},
		{name: "a broken engine", compare: func(context.Context) error { return broken }, ends: broken},
		{name: "stopped", compare: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, stops: true, ends: errStopped},
		{
			name: "stopped, and the workflow returns no error", compare: func(ctx context.Context) error { <-ctx.Done(); return nil },
			stops: true, ends: errStopped,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			w := ranking(func(ctx context.Context) error {
				if c.stops {
					cancel(errStopped)
				}
				return c.compare(ctx)
			})
			tasks, _ := newTaskset(1, 2, w).all()
			outcomes, err := newRunner(trinitytest.NewBandit(3)).run(ctx, 1, tasks)
			if !errors.Is(err, c.ends) {
				t.Fatalf("the run ended with %v, want %v", err, c.ends)
			}
			if c.ends != nil {
				return
			}
			failed := errors.Join(outcomes[0].failed...)
			if (failed == nil) != (c.failed == "") || failed != nil && !strings.Contains(failed.Error(), c.failed) {
				t.Errorf("failed: %v, want %q", failed, c.failed)
			}
			if got := len(outcomes[0].group) == 2; got != c.compared {
				t.Errorf("%d experiences are left", len(outcomes[0].group))
			}
		})
	}
}

// A run that is stopped while it compares the last group of a step does not deliver the step
// without that group.
func TestStopDuringACompareDeliversNothing(t *testing.T) {
	for range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		compared := 0
		w := ranking(func(ctx context.Context) error {
			if compared++; compared == 2 {
				cancel(errStopped)
				return context.Cause(ctx)
			}
			return nil
		})
		q := buffer.NewQueue(100, 0, nil)
		e := newExplorer(t, q, 1)
		e.opts.Agenda, e.opts.EvalTasksets, e.opts.Runner.Slots = NewAgenda(mix(t, newTaskset(2, 2, w)), nil, 2), nil, NewSlots(1, 1)
		e.opts.Buffer = heedless{e.opts.Buffer}
		if err := e.Run(ctx); !errors.Is(err, errStopped) {
			t.Fatalf("the run ended with %v", err)
		}
		if _, cursor, err := q.Sink("").Resume(t.Context()); err != nil || cursor != nil {
			t.Fatalf("step 1 was delivered: cursor %s, %v", cursor, err)
		}
	}
}

// heedless takes deliveries even after the end of the run, as a file does.
type heedless struct{ trinity.Sink }

func (s heedless) Put(ctx context.Context, d trinity.Delivery) error {
	return s.Sink.Put(context.WithoutCancel(ctx), d)
}

func (s heedless) Pause(ctx context.Context, needs int64) error {
	return s.Sink.Pause(context.WithoutCancel(ctx), needs)
}
