package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("remax",
		"ReMax (Li et al. 2024): the reward less the reward of the greedy answer to the same task, which the explorer also "+
			"samples, clipped PPO loss, k2 KL to the "+
			"reference model with kl_coef 0.001. Needs no critic and no group; the KL can be subtracted from the reward instead (kl_penalty_fn).",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 1, SampleStrategy: "default",
				Advantage: "remax", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
