package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("asymre",
		"Asymmetric REINFORCE (Arnal et al. 2025): rewards less the group's mean shifted by −0.1, so that good rollouts count "+
			"more than bad ones, policy "+
			"gradient without ratio or clip, no KL. Made for rollouts of older policies.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "asymre", PolicyLoss: "opmd", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
