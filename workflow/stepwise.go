package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

func init() {
	register("step_wise_workflow",
		"The policy acts on an environment, turn by turn, and each of its replies is an experience of its own, for algorithms that know steps "+
			"(multi_step_grpo, gigpo). Info has step_reward, the environment's reward of the step, and env_state_hash, its state before it. "+
			"reward_propagation says which reward a step gets.",
		func() trinity.Workflow {
			return &stepWise{playArgs: defaultPlay(), RewardPropagation: "last", Gamma: 0.99}
		})
}

// stepWise returns each reply of an episode as an experience.
type stepWise struct {
	playArgs          `yaml:",inline"`
	RewardPropagation string  `yaml:"reward_propagation" enum:"last|discounted|own" doc:"reward of a step; last is that of the episode"`
	Gamma             float64 `yaml:"gamma" range:"[0,1]" doc:"discount of a reward per step"`
}

// Requires implements [trinity.Requirer].
func (w *stepWise) Requires() trinity.Requirements {
	needs := w.playArgs.Requires()
	needs.Steps = true
	return needs
}

// Run implements [trinity.Workflow].
func (w *stepWise) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	e, err := w.run(ctx, r)
	if err != nil {
		return nil, err
	}
	steps := e.dialogue.Steps()
	last := steps[len(steps)-1]
	if last.Truncated == trinity.PromptTruncated {
		return steps, nil
	}
	whole, err := w.reward(ctx, r, e, last)
	if err != nil {
		return nil, err
	}
	if r.Reward != nil || !e.scored { // so the episode has a reward as a whole only
		clear(e.rewards)
		e.rewards[len(e.rewards)-1] = whole.Value
	}
	return steps, w.distribute(e, steps, whole)
}

// distribute writes the reward of each step and what else algorithms read of it.
func (w *stepWise) distribute(e *episode, steps []*trinity.Experience, whole trinity.Reward) error {
	later := 0.0
	for i := len(steps) - 1; i >= 0; i-- {
		s, own := steps[i], e.rewards[i]
		later = own + w.Gamma*later
		s.Info = map[string]any{"step_reward": own}
		if e.before[i] != "" {
			s.Info["env_state_hash"] = e.before[i]
		}
		switch {
		case !whole.Valid || w.RewardPropagation == "last":
			s.Reward = whole
		case w.RewardPropagation == "discounted":
			s.Reward = trinity.Reward{Value: later, Valid: true, Parts: whole.Parts}
		default:
			s.Reward = trinity.Reward{Value: own, Valid: true, Parts: whole.Parts}
		}
	}
	e.describe(steps)
	return nil
}
