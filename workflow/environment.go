package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

func init() {
	register("environment_workflow",
		"The policy acts on an environment, turn by turn, in one chat. The episode is one sequence, in which training learns what the policy "+
			"wrote. Its reward is that of the task's reward function if it names one, else the sum of the environment's rewards. Where the chat "+
			"template rewrites earlier turns, the episode is several sequences with the same reward.",
		func() trinity.Workflow { return &inEnvironment{defaultPlay()} })
}

// inEnvironment returns an episode as one sequence.
type inEnvironment struct {
	playArgs `yaml:",inline"`
}

// Run implements [trinity.Workflow].
func (w *inEnvironment) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	e, err := w.run(ctx, r)
	if err != nil {
		return nil, err
	}
	return w.whole(ctx, r, e)
}

// whole returns an episode as one sequence with its reward.
func (p *playArgs) whole(ctx context.Context, r *trinity.Rollout, e *episode) ([]*trinity.Experience, error) {
	exps := e.dialogue.Whole()
	if len(exps) == 1 && exps[0].Truncated == trinity.PromptTruncated {
		return exps, nil
	}
	last := exps[len(exps)-1]
	reward, err := p.reward(ctx, r, e, last)
	if err != nil {
		return nil, err
	}
	for _, x := range exps {
		x.Reward = reward
	}
	e.describe(exps)
	return exps, nil
}
