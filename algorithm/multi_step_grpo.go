package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("multi_step_grpo",
		"GRPO for rollouts of several steps: the reward of a run's last step, normalised over the runs of a task, is the "+
			"advantage of every step; clipped PPO "+
			"loss, k2 KL to the reference model with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "step_wise_grpo", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
