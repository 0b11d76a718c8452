package explorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
)

// try attempts runs up to 1+MaxRetries times, unless one of them succeeds. lost are the tokens of the attempts that it
// gave up. An error is that of the runs without experiences.
func (r *Runner) try(ctx context.Context, step int64, task job, runs []int) (all []ran, retries int, lost lostTokens, err error) {
	for try := 0; ; try++ {
		all, err = r.attempt(ctx, step, task, runs)
		hasSome := false
		for _, done := range all {
			own := err
			if len(done.exps) > 0 {
				own, hasSome = nil, true
			}
			lost.count(done, own, isCancelled(ctx))
		}
		var engine *trinity.EngineError
		var failed *trinity.RolloutError
		final := errors.As(err, &failed) && failed.Final
		if err == nil || hasSome || try == r.MaxRetries || ctx.Err() != nil || errors.As(err, &engine) || final {
			return all, try, lost, err
		}
	}
}

// attempt makes runs with one call of the workflow under the deadline. The error is that of the runs that it returns
// without experiences.
func (r *Runner) attempt(ctx context.Context, step int64, task job, runs []int) ([]ran, error) {
	ended := make(chan struct{})
	defer close(ended)
	all, rollouts := make([]ran, len(runs)), make([]*trinity.Rollout, len(runs))
	var failed error
	for i, run := range runs {
		rollout, trace, err := r.rollout(step, task, run, ended)
		if all[i].trace = trace; err != nil {
			failed = err
			continue
		}
		rollouts[i], all[i].model = rollout, rollout.Model
	}
	if failed != nil {
		return all, failed
	}
	defer func() {
		for _, rollout := range rollouts {
			r.Slots.count(rollout.Model.SampledTokens())
		}
	}()
	after, name := r.deadline(task)
	exps, failed := bounded(ctx, after, name, func(ctx context.Context) ([][]*trinity.Experience, error) {
		return runTogether(ctx, task.workflow, rollouts)
	})
	for i := range exps { // none, if nothing succeeded
		if err := admit(exps[i], rollouts[i].Model.ID); err != nil {
			return all, err
		}
		if err := sawImages(task, exps[i]); err != nil {
			return all, err
		}
	}
	for i, own := range exps {
		for _, e := range own {
			e.Teacher = cmp.Or(e.Teacher, task.Teacher)
			if len(task.Pack) == 0 { // else the workflow says which task of the pack it is of
				e.Truth = cmp.Or(e.Truth, experience.Truth(task.Task))
			}
		}
		countUntrained(own, rollouts[i].Model.SampledTokens())
		all[i].exps, all[i].wanted = own, wantedOf(rollouts[i])
	}
	return all, failed
}

// together yields the numbers of the runs that each call of a task's workflow makes: one, or all of the group. The greedy
// run after the group has a call of its own.
func together(task job, runs int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		next := 0
		if trinity.RequirementsOf(task.workflow).RunGroup != nil && task.GroupSize > 0 {
			var group []int
			for ; next < task.GroupSize; next++ {
				group = append(group, next)
			}
			if !yield(group) {
				return
			}
		}
		for ; next < runs; next++ {
			if !yield([]int{next}) {
				return
			}
		}
	}
}

// runTogether lets a workflow make rollouts. An error without experiences fails all of them. Otherwise a rollout of a
// group fails that has none.
func runTogether(ctx context.Context, w trinity.Workflow, rollouts []*trinity.Rollout) ([][]*trinity.Experience, error) {
	run := trinity.RequirementsOf(w).RunGroup
	if run == nil {
		exps, err := w.Run(ctx, rollouts[0])
		if err != nil {
			return nil, err
		}
		return [][]*trinity.Experience{exps}, nil
	}
	exps, err := run(ctx, rollouts)
	if err != nil && exps == nil {
		return nil, err
	}
	if len(exps) != len(rollouts) {
		return nil, fmt.Errorf("the workflow returned experiences of %d rollouts, and the group has %d", len(exps), len(rollouts))
	}
	for i := range exps {
		if err == nil && len(exps[i]) == 0 {
			err = errors.New("the workflow returned no experience of this rollout")
		}
	}
	return exps, err
}
