package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("gigpo",
		"Group-in-group policy optimization (Feng et al. 2025) for agents: a run's return against the task's other runs plus a "+
			"step's return against other "+
			"steps in the same environment state; clipped PPO loss, k2 KL to the reference model with kl_coef 0.001. The workflow "+
			"sets env_state_hash and, "+
			"if it has one, step_reward in info. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "gigpo", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
