package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("reinforceplusplus",
		"REINFORCE++ (Hu et al. 2025): returns of tokens normalised over the trainer's batch instead of the group, clipped PPO "+
			"loss, k2 KL to the reference "+
			"model with kl_coef 0.001. Needs no critic; the KL can be subtracted from the reward instead (kl_penalty_fn).",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "reinforceplusplus", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
