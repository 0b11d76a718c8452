package explorer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/weights"
)

// handing is an engine that hands over what it offered.
type handing struct {
	offering
	inUse atomic.Int64
}

func (h *handing) Adopt(context.Context) (int64, error) {
	h.inUse.Store(h.version.Load())
	return h.inUse.Load(), nil
}

// Steps go on beside an evaluation, which measures one version although the trainer publishes
// others, and whose record has the step that it follows. The last one has the model for itself.
func TestEvaluationBesideTheSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := buffer.NewQueue(100, 0, nil)
		engine := &handing{}
		memory := weights.NewMemory(engine, 0, weights.AtOnce, time.Minute)
		var mu sync.Mutex
		var evals, beside atomic.Int32
		e := flying(t, q, 2, 9, func(ctx context.Context, task *trinity.Task, run int) error {
			time.Sleep(time.Second)
			if evals.Load() > 0 {
				beside.Add(1)
			}
			return unequal(ctx, task, run)
		})
		var versions []int64
		note := func() {
			mu.Lock()
			defer mu.Unlock()
			versions = append(versions, engine.inUse.Load())
		}
		e.opts.EvalTasksets = []*Taskset{newTaskset(4, 1, onePull{before: func(_ context.Context, task *trinity.Task, _ int) error {
			evals.Add(1)
			defer evals.Add(-1)
			note()
			time.Sleep(time.Duration(1+task.Index) * 5 * time.Second) // the first to end leaves its slot to a rollout
			note()
			return nil
		}})}
		var records []string
		e.opts.Recorder = logging(func(step int64, m trinity.Metrics) error {
			mu.Lock()
			defer mu.Unlock()
			_, explored := m["rollout/reward/mean"]
			version, evaluated := m["eval/model_version"]
			if now := engine.inUse.Load(); evaluated && int64(version) != now {
				t.Errorf("step %d: the record says that version %v was evaluated, and %d is in use", step, version, now)
			}
			records = append(records, fmt.Sprintf("%d %v %v", step, explored, evaluated))
			return nil
		})
		e.opts.Runner.Slots = NewSlots(4, 4)
		e.opts.EvalInterval, e.opts.EvalOnStartup, e.opts.EvalParallel = 3, true, true
		e.opts.Weights = memory
		trained := make(chan error)
		go func() { trained <- trainer(t.Context(), q, memory, 2) }()
		if err := e.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-trained; err != nil && !strings.Contains(err.Error(), "EOF") {
			t.Error(err)
		}
		if beside.Load() == 0 {
			t.Error("no rollout ran beside an evaluation")
		}
		for of := range slices.Chunk(versions, len(versions)/4) { // 4 evaluations
			if slices.Min(of) != slices.Max(of) {
				t.Errorf("an evaluation sampled with versions %v", of)
			}
		}
		slices.Sort(records)
		want := []string{"0 false true", "1 true false", "2 true false", "3 false true", "3 true false", "4 true false", "5 true false",
			"6 false true", "6 true false", "7 true false", "8 true false", "9 true true"}
		if !slices.Equal(records, want) {
			t.Errorf("got records %v, want %v", records, want)
		}
	})
}

// An evaluation that begins as soon as the one before has ended, at every step, does not keep newer
// versions from the steps and from itself.
func TestEvaluationsWithoutABreak(t *testing.T) {
	for style, handover := range map[string]weights.Handover{
		"explorer_driven": weights.WhenAsked, "trainer_driven": weights.WhenAsked, "fully_async": weights.AtOnce,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(100, 0, nil)
			memory := weights.NewMemory(&handing{}, 0, handover, time.Hour)
			e := flying(t, q, 1, 9, unequal)
			e.opts.EvalTasksets = []*Taskset{newTaskset(1, 1, onePull{before: func(context.Context, *trinity.Task, int) error {
				time.Sleep(time.Minute)
				return nil
			}})}
			var mu sync.Mutex
			var explored, evaluated float64 // versions that were sampled last
			e.opts.Recorder = logging(func(step int64, m trinity.Metrics) error {
				mu.Lock()
				defer mu.Unlock()
				explored = max(explored, m["rollout/model_version"])
				if step < 9 { // the last one has the model for itself
					evaluated = max(evaluated, m["eval/model_version"])
				}
				return nil
			})
			e.opts.Buffer = &mortal{q.Sink(""), 100, func(trinity.Delivery) { time.Sleep(time.Second) }} // the evaluation begins first
			e.opts.Pace.Style, e.opts.Weights = style, memory
			e.opts.EvalInterval, e.opts.EvalOnStartup, e.opts.EvalParallel = 1, true, true
			trained := make(chan error)
			go func() { trained <- trainer(t.Context(), q, memory, 2) }()
			if err := e.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-trained; err != nil && !strings.Contains(err.Error(), "EOF") {
				t.Error(err)
			}
			if explored < 4 || evaluated < 4 {
				t.Errorf("%s: the newest version of 9 steps is %v, and %v in evaluations", style, explored, evaluated)
			}
		})
	}
}

// The state owes an evaluation beside the steps until it is logged: a run that was killed meanwhile
// repeats it, under its step.
func TestResumeRepeatsAnEvaluationBeside(t *testing.T) {
	killed := errors.New("killed")
	q := buffer.NewQueue(100, 0, nil)
	run := func(state json.RawMessage, eval func(context.Context, *trinity.Task, int) error) (evaluated []int64, err error) {
		e := newExplorer(t, q, 6)
		e.opts.Pace = Pace{Style: "fully_async", Interval: 1, MaxStaleness: math.Inf(1), PerStep: 2, PerBatch: 2}
		e.opts.Weights = weights.NewMemory(&offering{}, 0, weights.AtOnce, time.Minute)
		e.opts.EvalTasksets = []*Taskset{newTaskset(1, 1, onePull{before: eval})}
		e.opts.EvalInterval, e.opts.EvalParallel = 2, true
		e.opts.Recorder = logging(func(step int64, m trinity.Metrics) error {
			if _, ok := m["eval/arms/accuracy/mean@1"]; ok {
				evaluated = append(evaluated, step)
			}
			return nil
		})
		if err := e.opts.Agenda.Restore(state); err != nil {
			t.Fatal(err)
		}
		err = e.Run(t.Context())
		return evaluated, err
	}
	var states []json.RawMessage // of the deliveries, as Resume gives them
	evaluated, err := run(nil, func(context.Context, *trinity.Task, int) error {
		for len(states) == 0 || !strings.Contains(string(states[len(states)-1]), `"step":3`) { // the step after the evaluated one is delivered
			_, state, _ := q.Sink("").Resume(t.Context())
			states = append(states, state)
			time.Sleep(time.Millisecond)
		}
		return &trinity.EngineError{Err: killed}
	})
	if !errors.Is(err, killed) || len(evaluated) != 0 {
		t.Fatalf("evaluated %v, %v", evaluated, err)
	}
	_, state, _ := q.Sink("").Resume(t.Context())
	if evaluated, err = run(state, nil); err != nil || fmt.Sprint(evaluated) != "[2 4 6]" {
		t.Errorf("the resumed run evaluated steps %v, %v; want 2, 4 and 6", evaluated, err)
	}
	_, state, _ = q.Sink("").Resume(t.Context())
	if strings.Contains(string(state), "evaluating") {
		t.Errorf("the state after the end owes an evaluation: %s", state)
	}
}

// A run that resumes without eval_parallel, perhaps with a sync_style that does not allow it, repeats
// the evaluation that it owes before the next step.
func TestResumeWithoutEvaluationsBeside(t *testing.T) {
	for sets, want := range [][]string{{"1 explored"}, {"0 evaluated", "1 explored"}} {
		synctest.Test(t, func(t *testing.T) {
			q := buffer.NewQueue(100, 0, nil)
			e := flying(t, q, 1, 1, unequal)
			for range sets {
				e.opts.EvalTasksets = append(e.opts.EvalTasksets, newTaskset(1, 1, onePull{before: func(context.Context, *trinity.Task, int) error {
					time.Sleep(time.Minute)
					return nil
				}}))
			}
			var records []string
			e.opts.Recorder = logging(func(step int64, m trinity.Metrics) error {
				what := "explored"
				if _, evaluated := m["time/eval"]; evaluated {
					what = "evaluated"
				}
				records = append(records, fmt.Sprint(step, " ", what))
				return nil
			})
			owed := int64(0)
			e.opts.Agenda.evaluates(&owed)
			if err := e.Run(t.Context()); err != nil || !slices.Equal(records, want) {
				t.Errorf("got records %v, %v; want %v", records, err, want)
			}
			if _, state, _ := q.Sink("").Resume(t.Context()); strings.Contains(string(state), "evaluating") {
				t.Errorf("the state owes an evaluation: %s", state)
			}
		})
	}
}
