package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("sapo",
		"Soft adaptive policy optimization (Gao et al. 2025): GRPO's advantage, a smooth gate on the ratio instead of the "+
			"clip, k2 KL to the reference model "+
			"with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "sapo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
