package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("gspo",
		"Group sequence policy optimization (Zheng et al. 2025): GRPO's advantage, ratio and clip of whole sequences, "+
			"seq-mean-token-mean, k2 KL to the "+
			"reference model with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "gspo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
