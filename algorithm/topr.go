package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("topr",
		"Tapered off-policy REINFORCE (Le Roux et al. 2025): the reward itself, with rollouts of reward 0 or less weighted by "+
			"their ratio to the sampling policy, "+
			"at most 1; k2 KL to the reference model with kl_coef 0.001. Rewards must have both signs. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "reinforce", PolicyLoss: "topr", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
