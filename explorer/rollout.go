package explorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// Runner runs groups of rollouts, bounded in number, each with a deadline and retries.
type Runner struct {
	NewModel   func(task *trinity.Task) *trinity.Model // the model as the task wants it, without ID and seed
	Seed       uint64
	Slots      *Slots
	Timeout    time.Duration // of one attempt
	MaxRetries int
	// Greedy runs each training task once more, at temperature 0: Info["reward_baseline"] of its experiences is the reward of that, null where it
	// failed or could not be scored. Nothing else comes of it.
	Greedy bool
}

// outcome is what came of one task.
type outcome struct {
	task    *trinity.Task
	group   trinity.Group // in order of run and turn; failed rollouts are absent
	failed  []error       // of the rollouts that failed, after their retries
	retries int
	elapsed []time.Duration // of each rollout that ended well
}

// Run runs every task's group and returns the outcomes in the order of tasks. A failed rollout is in its outcome; a failed engine is the
// error.
func (r *Runner) Run(ctx context.Context, step int64, workflow trinity.Workflow, tasks []*trinity.Task) ([]*outcome, error) {
	return r.start(ctx, step, workflow, tasks).wait()
}

// started is groups whose rollouts have begun.
type started struct {
	eg       *errgroup.Group
	outcomes []*outcome

	first  sync.Once
	at     time.Time // when the first did
	before int64     // tokens that were sampled until then
}

func (s *started) wait() ([]*outcome, error) {
	if err := s.eg.Wait(); err != nil {
		return nil, err
	}
	return s.outcomes, nil
}

// start begins every task's group, a rollout whenever there is a slot, and returns when all have begun.
func (r *Runner) start(ctx context.Context, step int64, workflow trinity.Workflow, tasks []*trinity.Task) *started {
	eg, ctx := errgroup.WithContext(ctx)
	s := &started{eg: eg, outcomes: make([]*outcome, len(tasks))}
	for i, task := range tasks {
		left := task.GroupSize
		if r.greedy(task) {
			left++
		}
		rollouts := make([][]*trinity.Experience, left)
		out := &outcome{task: task}
		s.outcomes[i] = out
		var mu sync.Mutex
		for run := range rollouts {
			r.Slots.run(ctx, eg, func() error {
				start := time.Now()
				s.first.Do(func() { s.at, s.before = start, r.Slots.sampled.Load() })
				exps, retries, err := r.rollout(ctx, step, workflow, task, run)
				var engine *trinity.EngineError
				if errors.As(err, &engine) {
					return err
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.Slots.count(exps)
				mu.Lock()
				defer mu.Unlock()
				out.retries += retries
				if err != nil {
					out.failed = append(out.failed, fmt.Errorf("task %s, run %d: %w", task.ID, run, err))
				} else {
					rollouts[run] = exps
					out.elapsed = append(out.elapsed, time.Since(start))
				}
				if left--; left > 0 {
					return nil
				}
				for _, e := range rollouts {
					out.group = append(out.group, e...)
				}
				if err := r.compare(ctx, step, workflow, out, len(rollouts)); err != nil {
					return err
				}
				if r.greedy(task) {
					out.takeBaseline()
				}
				return nil
			})
		}
	}
	return s
}

// compare lets a GroupWorkflow rank the siblings once all are in, with a model of the next run. A group that it fails on is absent; a failed engine and the end of
// the run are errors.
func (r *Runner) compare(ctx context.Context, step int64, workflow trinity.Workflow, out *outcome, run int) error {
	gw, ok := workflow.(trinity.GroupWorkflow)
	if !ok || len(out.group) == 0 {
		return nil
	}
	task, group, m := out.task, out.group, r.model(step, out.task, run)
	_, err := bounded(ctx, r.Timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, gw.Compare(ctx, task, m, group) })
	var engine *trinity.EngineError
	switch {
	case errors.As(err, &engine):
		return err
	case ctx.Err() != nil: // whatever came of it: the step is not delivered without the group
		return context.Cause(ctx)
	case err != nil:
		out.failed = append(out.failed, fmt.Errorf("task %s, comparing its group: %w", out.task.ID, err))
		out.group = nil
	}
	return nil
}

// greedy tells whether the task has a greedy rollout beside its group, as run GroupSize.
func (r *Runner) greedy(task *trinity.Task) bool { return r.Greedy && !task.Eval }

// takeBaseline takes the greedy rollout out of the group and leaves the reward of its last step with the others.
func (o *outcome) takeBaseline() {
	var baseline any // null
	var rest trinity.Group
	for _, e := range o.group {
		switch {
		case e.ID.Run < o.task.GroupSize:
			rest = append(rest, e)
		case e.Reward.Valid:
			baseline = e.Reward.Value
		default:
			baseline = nil
		}
	}
	for _, e := range rest {
		info := map[string]any{"reward_baseline": baseline}
		maps.Copy(info, e.Info)
		e.Info = info
	}
	o.group = rest
}

// rollout tries one run up to 1+MaxRetries times.
func (r *Runner) rollout(ctx context.Context, step int64, workflow trinity.Workflow, task *trinity.Task, run int) (exps []*trinity.Experience, retries int, err error) {
	for try := 0; ; try++ {
		exps, err = r.attempt(ctx, workflow, task, r.model(step, task, run))
		var engine *trinity.EngineError
		if err == nil || try == r.MaxRetries || ctx.Err() != nil || errors.As(err, &engine) {
			return exps, try, err
		}
	}
}

// attempt runs the workflow under the deadline.
func (r *Runner) attempt(ctx context.Context, workflow trinity.Workflow, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	id := m.ID
	exps, err := bounded(ctx, r.Timeout, func(ctx context.Context) ([]*trinity.Experience, error) { return workflow.Run(ctx, task, m) })
	if err != nil {
		return nil, err
	}
	if err := admit(exps, id); err != nil {
		return nil, err
	}
	for _, e := range exps {
		e.Teacher = cmp.Or(e.Teacher, task.Teacher)
	}
	return exps, nil
}

// admit checks that the experiences are steps of one run, each with a turn of its own, and puts them in the order of turns.
func admit(exps []*trinity.Experience, run trinity.ExperienceID) error {
	slices.SortStableFunc(exps, func(a, b *trinity.Experience) int { return cmp.Compare(a.ID.Turn, b.ID.Turn) })
	for i, e := range exps {
		if err := e.Check(); err != nil {
			return err
		}
		own := run
		own.Turn = e.ID.Turn
		if e.ID != own {
			return fmt.Errorf("the workflow returned experience %s from run %d of task %s in step %d: leave the id that the model gives", e.ID, run.Run, run.Task, run.Step)
		}
		if i > 0 && exps[i-1].ID == e.ID {
			return fmt.Errorf("the workflow returned two experiences %s: each needs an ID.Turn of its own", e.ID)
		}
	}
	return nil
}

func (r *Runner) model(step int64, task *trinity.Task, run int) *trinity.Model {
	m := r.NewModel(task)
	m.ID = trinity.ExperienceID{Step: step, Task: task.ID, Run: run}
	m.Params.Seed = trinity.Seed(r.Seed, step, task.ID, run)
	if r.greedy(task) && run == task.GroupSize {
		m.Params.Temperature = 0
	}
	return m
}
