package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("m2po",
		"Second-moment trust policy optimization (M2PO, Zheng et al. 2025): GRPO's advantage without the tokens that have "+
			"moved so far that the second "+
			"moment of the log-ratios exceeds 0.04; no KL and no reference model. Made for rollouts of much older policies.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "m2po", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
