package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
)

// packPlay solves packs whose tasks are episodes in an environment. An environment that can be reused
// stays open for the whole pack, so it may remember what the policy has seen in it.
type packPlay struct {
	packArgs `yaml:",inline"`
	playArgs `yaml:",inline"`
}

// Validate builds the environment.
func (p *packPlay) Validate() error {
	if err := p.packArgs.validate(); err != nil {
		return err
	}
	return p.playArgs.Validate()
}

// Requires implements [trinity.Requirer].
func (p *packPlay) Requires() trinity.Requirements {
	needs := p.playArgs.Requires()
	needs.Packs, needs.FillPacks = true, p.Cod.FillPacks
	return needs
}

// Run implements [trinity.Workflow].
func (p *packPlay) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	leave, err := p.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var env trinity.Environment
	defer func() {
		if env != nil {
			env.Close()
		}
	}()
	return p.packArgs.run(ctx, r, func(ctx context.Context, own *trinity.Rollout, notes string) (*attempt, error) {
		first, err := p.next(ctx, own, &env)
		if err != nil {
			return nil, err
		}
		return p.solve(ctx, own, env, first, notes)
	})
}

// next begins an episode for a task of a pack in its environment, which is nil before the first.
func (p *playArgs) next(ctx context.Context, r *trinity.Rollout, env *trinity.Environment) (trinity.Observation, error) {
	ctx, cancel := p.timeout(ctx, "reset", p.ResetTimeout)
	defer cancel()
	var err error
	if again, ok := (*env).(trinity.Reusable); ok {
		err = again.Reuse(ctx, r.Task)
	} else {
		if *env != nil {
			err = (*env).Close()
			*env = nil
		}
		if err == nil {
			*env, err = p.opener.OpenEnvironment(ctx, r.Task)
		}
	}
	if err != nil {
		return trinity.Observation{}, p.broken(ctx, "does not open", err)
	}
	first, err := (*env).Reset(ctx, r.Seed)
	if err != nil {
		return first, p.broken(ctx, "does not reset", err)
	}
	return first, nil
}

// solve plays the episode of a task.
func (p *packPlay) solve(
	ctx context.Context, r *trinity.Rollout, env trinity.Environment, first trinity.Observation, notes string,
) (*attempt, error) {
	e, seen := newEpisode(r.Model, first), first
	seen.Messages = noted(first.Messages, notes)
	if err := p.turns(ctx, env, e, seen); err != nil {
		return nil, err
	}
	a := &attempt{steps: e.dialogue.Steps()}
	last := a.steps[len(a.steps)-1]
	if a.reward = last.Reward; last.Truncated == trinity.PromptTruncated {
		return a, nil
	}
	reward, err := p.reward(ctx, r, e, last)
	if err != nil {
		return nil, err
	}
	a.reward = p.shortened(reward, a.steps, p.MaxTurns)
	a.chat = slices.Concat(first.Messages, e.dialogue.Messages()[len(seen.Messages):])
	a.after = transcript(e.end)
	if e.truncated != trinity.NotTruncated {
		a.after += fmt.Sprintf("\n(The task ended after %d of at most %d replies.)", len(a.steps), p.MaxTurns)
	}
	e.describe(a.steps)
	return a, nil
}
