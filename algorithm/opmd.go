package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("opmd",
		"Online policy mirror descent (Kimi Team 2025; Pan et al. 2025): rewards less the group's mean, policy gradient "+
			"divided by 1 + tau, k2 KL to the "+
			"reference model with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "opmd", PolicyLoss: "opmd", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
