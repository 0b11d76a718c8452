package explorer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// onePull asks for one token and scores it: token 1 is right.
type onePull struct {
	before func(ctx context.Context, task *trinity.Task, run int) error
}

func (w onePull) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	if w.before != nil {
		if err := w.before(ctx, r.Task, r.Model.ID.Run); err != nil {
			return nil, err
		}
	}
	e, err := r.Model.Chat(ctx, []trinity.Message{{Role: "user", Content: "pull"}}, nil)
	if err != nil {
		return nil, err
	}
	right := 0.0
	if e.Tokens[len(e.Tokens)-1] == 1 {
		right = 1
	}
	e.Reward = trinity.NewReward(map[string]float64{"accuracy": right})
	return []*trinity.Experience{e}, nil
}

func rows(n int) trinitytest.Rows {
	r := make(trinitytest.Rows, n)
	for i := range r {
		r[i] = map[string]any{"i": i}
	}
	return r
}

func newRunner(b *trinitytest.Bandit) *Runner {
	return &Runner{
		Seed: 1, Slots: NewSlots(4, 4), Timeout: time.Second, MaxRetries: 2,
		Host: host{sampler: b},
	}
}

func newTaskset(n, group int, w trinity.Workflow) *Taskset {
	sel := &trinitytest.InOrder{}
	data := rows(n)
	_ = sel.Start(data)
	return &Taskset{Data: data, Selector: sel, Workflow: w, Template: trinity.Task{Taskset: "arms", GroupSize: group}}
}

func mix(t *testing.T, sets ...*Taskset) *Mix {
	t.Helper()
	m, err := NewMix(sets...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGroupsDoNotDependOnTheNumberOfSlots(t *testing.T) {
	var want string
	for _, inFlight := range []int{1, 3, 16} {
		r := newRunner(trinitytest.NewBandit(3))
		r.Slots = NewSlots(inFlight, inFlight)
		ts := newTaskset(5, 4, onePull{})
		tasks, err := ts.all()
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := r.run(t.Context(), 7, tasks)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for i, o := range outcomes {
			for run, e := range o.group {
				if e.ID != (trinity.ExperienceID{Step: 7, Task: fmt.Sprintf("arms/%d", i), Run: run}) {
					t.Fatalf("experience %d of task %d is %s", run, i, e.ID)
				}
				fmt.Fprint(&got, e.Tokens[len(e.Tokens)-1])
			}
		}
		if want == "" {
			want = got.String()
		}
		if got.String() != want || len(want) != 20 {
			t.Errorf("with %d in flight sampled %s, with 1 %s", inFlight, &got, want)
		}
	}
}

func TestFailedRolloutIsRetriedThenAbsent(t *testing.T) {
	var tries atomic.Int32
	w := onePull{before: func(_ context.Context, _ *trinity.Task, run int) error {
		switch run {
		case 0:
			tries.Add(1)
			return errors.New("broken tool")
		case 1:
			panic("broken workflow")
		}
		return nil
	}}
	ts := newTaskset(1, 4, w)
	tasks, _ := ts.all()
	outcomes, err := newRunner(trinitytest.NewBandit(2)).run(t.Context(), 1, tasks)
	if err != nil {
		t.Fatal(err)
	}
	o := outcomes[0]
	if len(o.group) != 2 || len(o.failed) != 2 || tries.Load() != 3 {
		t.Fatalf("%d experiences, %d failures, %d tries; want 2, 2, 3", len(o.group), len(o.failed), tries.Load())
	}
	m := rolloutMetrics(outcomes)
	if m["failed_run_count"] != 2 || m["reward/min"] != m["reward/mean"] {
		t.Errorf("metrics %v", m)
	}
}

func TestHangingRolloutEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onePull{before: func(ctx context.Context, _ *trinity.Task, run int) error {
			if run == 0 {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return nil
		}}
		ts := newTaskset(1, 2, w)
		tasks, _ := ts.all()
		outcomes, err := newRunner(trinitytest.NewBandit(2)).run(t.Context(), 1, tasks)
		if err != nil {
			t.Fatal(err)
		}
		if len(outcomes[0].group) != 1 || !strings.Contains(outcomes[0].failed[0].Error(), "max_timeout") {
			t.Errorf("got %v", outcomes[0].failed)
		}
	})
}

func TestFailedEngineEndsTheRun(t *testing.T) {
	b := trinitytest.NewBandit(2)
	b.SampleError = func([]int32) error { return errors.New("out of memory") }
	ts := newTaskset(2, 2, onePull{})
	tasks, _ := ts.all()
	_, err := newRunner(b).run(t.Context(), 1, tasks)
	var engine *trinity.EngineError
	if !errors.As(err, &engine) {
		t.Errorf("got %v, want an EngineError", err)
	}
}

// noPipeline passes groups on as they are.
type noPipeline struct{}

func (noPipeline) Process(_ context.Context, _ int64, g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return g, nil, nil
}

// seeing calls itself with the groups of each step and passes them on.
type seeing func([]trinity.Group)

func (s seeing) Process(_ context.Context, _ int64, g []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	s(g)
	return g, nil, nil
}

// logging calls itself with the metrics of each step.
type logging func(step int64, m trinity.Metrics) error

func (l logging) Log(_ context.Context, r trinity.Record) error { return l(r.Step, r.Metrics) }
func (logging) Warn(error)                                      {}
func (logging) Say(string)                                      {}

// newExplorer returns an explorer without a trainer, which never needs a version newer than 0.
func newExplorer(t *testing.T, q *buffer.Queue, steps int64) *Explorer {
	t.Helper()
	return New(Options{
		Agenda: NewAgenda(mix(t, newTaskset(5, 2, onePull{})), nil, 2), EvalTasksets: []*Taskset{newTaskset(3, 4, onePull{})},
		Runner: newRunner(trinitytest.NewBandit(2)), Pipeline: noPipeline{}, Buffer: q.Sink(""),
		Weights:    weights.NewMemory(nil, 0, weights.AtRendezvous, time.Minute),
		Recorder:   logging(func(int64, trinity.Metrics) error { return nil }),
		TotalSteps: steps, Pace: Pace{Style: "fixed", Interval: 100},
	})
}

func tasksOf(groups ...trinity.Group) string {
	var s strings.Builder
	for _, e := range slices.Concat(groups...) {
		fmt.Fprintf(&s, "%d:%s ", e.ID.Step, e.ID.Task)
	}
	return s.String()
}

func TestResumeContinuesWithTheNextTasks(t *testing.T) {
	whole := buffer.NewQueue(100, 0, nil)
	if err := newExplorer(t, whole, 4).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, _ := whole.State()

	first := buffer.NewQueue(100, 0, nil)
	if err := newExplorer(t, first, 2).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut, _ := first.State()
	_, cursor, _ := first.Sink("").Resume(t.Context())
	second := buffer.NewQueue(100, 0, nil)
	if err := second.Restore(cut); err != nil {
		t.Fatal(err)
	}
	e := newExplorer(t, second, 4)
	if err := e.opts.Agenda.Restore(cursor); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, _ := second.State()
	if tasksOf(got.Pending...) != tasksOf(all.Pending...) || len(slices.Concat(got.Pending...)) != 16 {
		t.Errorf("resumed run explored\n%s\nthe whole run\n%s", tasksOf(got.Pending...), tasksOf(all.Pending...))
	}
}

func TestEvaluationMetrics(t *testing.T) {
	score := func(v ...float64) *outcome {
		o := &outcome{}
		for run, x := range v {
			o.group = append(o.group, &trinity.Experience{
				ID: trinity.ExperienceID{Run: run}, Reward: trinity.NewReward(map[string]float64{"accuracy": x}),
			})
		}
		return o
	}
	m := evalMetrics([]*outcome{score(1, 1, 1, 1), score(0, 0, 0, 0), score(0, 1, 0, 1)}, 4)
	for name, want := range map[string]float64{"accuracy/mean@4": 0.5, "accuracy/std@4": 0.5 / 3, "finished_task_count": 3} {
		if got := m[name]; got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	single := evalMetrics([]*outcome{score(1)}, 1)
	if std, ok := single["accuracy/std@1"]; single["accuracy/mean@1"] != 1 || std != 0 || !ok {
		t.Errorf("one run: %v", single)
	}
	// Of two draws with replacement from {0,1,0,1} the best is 1 with probability 3/4.
	if got, want := m["accuracy/best@2"], (1+0+0.75)/3; got < want-0.02 || got > want+0.02 {
		t.Errorf("best@2 = %v, want about %v", got, want)
	}
	if m["accuracy/best@4"] < m["accuracy/best@2"] || m["accuracy/worst@4"] > m["accuracy/worst@2"] {
		t.Errorf("best and worst do not spread with n: %v", m)
	}
}

func TestEvaluationUsesOtherRandomNumbersThanTraining(t *testing.T) {
	r := newRunner(trinitytest.NewBandit(1000))
	ts := newTaskset(8, 1, onePull{})
	tasks, _ := ts.all()
	trained, err := r.run(t.Context(), 3, tasks)
	if err != nil {
		t.Fatal(err)
	}
	other := *r
	other.Seed ^= evalSeed
	evaluated, err := other.run(t.Context(), 3, tasks)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for i := range trained {
		if trained[i].group[0].Tokens[4] == evaluated[i].group[0].Tokens[4] {
			same++
		}
	}
	if same > 2 {
		t.Errorf("%d of 8 samples are the same", same)
	}
}

// An evaluation reports its progress after each rollout, from the first.
func TestAnEvaluationReportsProgress(t *testing.T) {
	r := newRunner(trinitytest.NewBandit(6))
	var said []string
	var mu sync.Mutex
	r.Progress = func(doing string, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf("%s %d/%d", doing, done, total))
	}
	set := newTaskset(3, 2, onePull{})
	set.Template.Taskset, set.Template.Eval = "held_out", true
	if _, err := Evaluate(t.Context(), r, &telling{}, []*Taskset{set}, 0, "eval/"); err != nil {
		t.Fatal(err)
	}
	slices.Sort(said)
	if len(said) != 7 || said[0] != "evaluates held_out 0/6" || said[6] != "evaluates held_out 6/6" {
		t.Errorf("said %q", said)
	}
}
