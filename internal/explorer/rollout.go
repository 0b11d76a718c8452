package explorer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
)

// Runner runs groups of rollouts. It bounds how many are under way and how many call the model at
// once, and gives each a deadline and retries.
type Runner struct {
	Host       Host
	Seed       uint64
	Slots      *Slots
	Timeout    time.Duration // of one attempt, without its waits for a slot
	Turn       time.Duration // of one call of a model, once it has its slot; 0 is no limit
	Reward     time.Duration // of one call of a reward function; 0 is what the attempt has left
	MaxRetries int
	Over       OverRollout
	Tempo      *Tempo // nil: the deadline stays as it is
	// Greedy runs each training task once more, at temperature 0, and trains on nothing of that
	// run. Info["reward_baseline"] of the group's experiences becomes its reward, or null if it
	// failed or has no valid reward.
	Greedy bool
	// Progress receives what the runner does, after each rollout; nil receives nothing.
	Progress func(doing string, done, total int)
	Tracer   trinity.Tracer // nil: nobody is told
	// Scrub returns an error without the secrets that it may repeat; nil leaves errors as they are.
	Scrub func(error) error

	answers *answers // nil if nobody keeps them
}

// scrubbed returns an error as it may be told.
func (r *Runner) scrubbed(err error) error {
	if r.Scrub == nil || err == nil {
		return err
	}
	return r.Scrub(err)
}

// outcome is the result of one task.
type outcome struct {
	task    *trinity.Task
	group   trinity.Group // ordered by run and turn, without failed rollouts
	failed  []error       // one for each rollout that failed after its retries
	ended   int           // rollouts that the step did not wait for
	retries int
	elapsed []time.Duration // of each rollout that succeeded
	reused  []float64       // of each rollout of several calls: see reusedMetric
	lost    lostTokens
}

// run runs the group of every task and returns the outcomes in the order of the tasks. A failed
// rollout is part of its outcome; a failed engine is the error.
func (r *Runner) run(ctx context.Context, step int64, tasks []job) ([]*outcome, error) {
	return r.start(ctx, step, tasks).wait()
}

// stepRollouts is the rollouts of a step that have begun.
type stepRollouts struct {
	eg       *errgroup.Group
	outcomes []*outcome
	tempo    *Tempo

	first  sync.Once
	at     time.Time // when the first rollout began
	before int64     // tokens sampled until then
}

func (s *stepRollouts) wait() ([]*outcome, error) {
	if err := s.eg.Wait(); err != nil {
		return nil, err
	}
	s.tempo.observe(s.outcomes)
	return s.outcomes, nil
}

// start begins a rollout whenever a slot is free and returns when all rollouts of all tasks have
// begun.
func (r *Runner) start(ctx context.Context, step int64, tasks []job) *stepRollouts {
	eg, ctx := errgroup.WithContext(ctx)
	s := &stepRollouts{eg: eg, outcomes: make([]*outcome, len(tasks)), tempo: r.Tempo}
	ended := r.counter(step, tasks)
	within, enough := r.Over.of(ctx, tasks)
	for i, task := range tasks {
		left := task.GroupSize
		if r.greedy(task.Task) {
			left++
		}
		rollouts, failed := make([]ran, left), make([]error, left)
		out := &outcome{task: task.Task}
		s.outcomes[i] = out
		var mu sync.Mutex
		for runs := range together(task, left) {
			r.Slots.run(ctx, eg, func() error {
				start := time.Now()
				s.first.Do(func() { s.at, s.before = start, r.Slots.sampled.Load() })
				all, retries, lost, err := r.try(within, step, task, runs)
				err = r.scrubbed(err)
				for _, done := range all {
					done.trace.span(trinity.SpanRollout, "", 0, start)
				}
				var engine *trinity.EngineError
				if errors.As(err, &engine) {
					return err
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				for range runs {
					ended()
				}
				mu.Lock()
				defer mu.Unlock()
				out.retries += retries
				out.lost.add(lost)
				for n, done := range all {
					run := runs[n]
					switch {
					case err == nil || len(done.exps) > 0:
						rollouts[run] = done
						out.elapsed = append(out.elapsed, time.Since(start))
					case isCancelled(within):
						out.ended++
					default:
						done.trace.failed(err, retries)
						failed[run] = fmt.Errorf("task %s, run %d: %w", task.ID, run, err)
					}
				}
				if left -= len(runs); left > 0 {
					return nil
				}
				defer enough.ended()
				out.failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
				out.reused = reusedBy(rollouts)
				if out.ended > 0 && !r.Over.Partial {
					out.lost.drop(rollouts...)
					return nil
				}
				var wanted []trinity.RewardInput
				for _, done := range rollouts {
					out.group, wanted = append(out.group, done.exps...), append(wanted, done.wanted...)
				}
				if err := r.score(ctx, task, out.group, wanted); err != nil {
					return err
				}
				for _, x := range out.group {
					if x.Reward.Reason != "" {
						x.Reward.Reason = r.scrubbed(errors.New(x.Reward.Reason)).Error()
					}
				}
				if err := r.compare(ctx, step, task, out, len(rollouts)); err != nil {
					return err
				}
				switch {
				case out.group == nil:
					out.lost.drop(rollouts...)
				case r.greedy(task.Task):
					out.lost.drop(rollouts[task.GroupSize])
					out.takeBaseline()
				}
				return r.answers.add(i, out)
			})
		}
	}
	return s
}

// reusedBy returns the shares of prompts that rollouts of several calls reused, in the order of the
// rollouts: the sum of numbers depends on their order.
func reusedBy(rollouts []ran) (shares []float64) {
	for _, r := range rollouts {
		if r.model == nil {
			continue // it failed
		}
		if share, several := r.model.PrefillReuse(); several {
			shares = append(shares, share)
		}
	}
	return shares
}

// counter returns a function that reports one more rollout of the tasks as ended.
func (r *Runner) counter(step int64, tasks []job) func() {
	if r.Progress == nil || len(tasks) == 0 {
		return func() {}
	}
	doing, total := fmt.Sprintf("explores step %d", step), 0
	if tasks[0].Eval {
		doing = "evaluates " + tasks[0].Taskset
	}
	for _, task := range tasks {
		total += task.GroupSize
		if r.greedy(task.Task) {
			total++
		}
	}
	r.Progress(doing, 0, total)
	var done atomic.Int64
	return func() { r.Progress(doing, int(done.Add(1)), total) }
}

// compare lets a GroupWorkflow compare the rollouts of a group once all have ended; its model is
// that of the next run. A comparison that fails drops the group. The error is a failed engine or
// the end of the run.
func (r *Runner) compare(ctx context.Context, step int64, task job, out *outcome, run int) error {
	gw, ok := task.workflow.(trinity.GroupWorkflow)
	if !ok || len(out.group) == 0 {
		return nil
	}
	rollout, _, err := r.rollout(step, task, run, nil)
	if err == nil {
		group := out.group
		rollout.Reward = task.reward // the group is scored already
		after, name := r.deadline(task)
		_, err = bounded(ctx, after, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, gw.Compare(ctx, rollout, group) })
	}
	var engine *trinity.EngineError
	switch {
	case errors.As(err, &engine):
		return err
	case ctx.Err() != nil: // the step is not delivered without the group, whether or not the comparison succeeded
		return context.Cause(ctx)
	case err != nil:
		out.failed = append(out.failed, fmt.Errorf("task %s, comparing its group: %w", out.task.ID, err))
		out.group = nil
	}
	return nil
}

// greedy reports whether the task has a greedy rollout beside its group, as run GroupSize.
func (r *Runner) greedy(task *trinity.Task) bool { return r.Greedy && !task.Eval }

// takeBaseline removes the greedy rollout from the group and writes the reward of its last step
// into the Info of the others.
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

// rollout makes what a workflow gets for one run of a task. ended is closed when the run ends; nil if
// its calls of models are one each.
func (r *Runner) rollout(step int64, task job, run int, ended <-chan struct{}) (*trinity.Rollout, *traced, error) {
	trace := &traced{to: r.Tracer, id: trinity.ExperienceID{Step: step, Task: task.ID, Run: run}, role: trinity.RoleExplorer, task: task.Task}
	if task.Eval {
		trace.role = trinity.RoleEvaluation
	}
	if task.see != nil {
		if err := task.see(); err != nil { // another attempt would meet it too
			return nil, trace, &trinity.RolloutError{Kind: trinity.FailedWorkflow, Final: true, Err: err}
		}
	}
	m, err := r.Host.Model(task.Task, "")
	if err != nil {
		return nil, trace, err
	}
	m.Sampler = slotted{m.Sampler, r.Slots, r.Turn, trace}
	m.ID = trace.id
	m.Params.Seed, m.Ended = trinity.Seed(r.Seed, step, task.ID, run), ended
	if r.greedy(task.Task) && run == task.GroupSize {
		m.Params.Temperature = 0
	}
	host := &rolloutHost{
		Host: r.Host, slots: r.Slots, turn: r.Turn, task: task.Task, id: m.ID, seed: m.Params.Seed, ended: ended, trace: trace,
	}
	reward := task.reward
	if _, ok := reward.(trinity.GroupReward); ok {
		reward = &deferred{}
	}
	begin := step
	if task.Eval {
		begin = 0 // an evaluation begins every time alike
	}
	return &trinity.Rollout{
		Task: task.Task, Seed: trinity.Seed(r.Seed, begin, task.ID, -1), Model: m, Reward: reward, Host: host,
		Grade: func(ctx context.Context, score func(context.Context) (trinity.Reward, error)) (trinity.Reward, error) {
			defer trace.span(trinity.SpanReward, "", 0, time.Now())
			return r.grade(ctx, score)
		},
	}, trace, nil
}
