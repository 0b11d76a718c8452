package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("ppo",
		"Proximal policy optimization (Schulman et al. 2017): advantages by GAE from a critic with γ = λ = 1, clipped policy "+
			"loss, k2 KL to the reference model "+
			"with kl_coef 0.001. Trains a critic besides the policy: a copy of the model with a value head.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 1, SampleStrategy: "default",
				Advantage: "ppo", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
