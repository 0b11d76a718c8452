package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("cispo",
		"Clipped importance-sampling policy optimization (CISPO, MiniMax 2025): GRPO's advantage, every token's policy "+
			"gradient weighted by its ratio, which is "+
			"clipped instead of the gradient; k2 KL to the reference model with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "cispo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
