package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("mix",
		"GRPO on rollouts and SFT on demonstrations in one batch: (1 − mu)·GRPO + mu·SFT with mu 0.1. The demonstrations come "+
			"from the auxiliary buffer "+
			"sft_dataset (sample strategy mix, half of a batch); k2 KL to the reference model with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "mix",
				Advantage: "grpo", PolicyLoss: "mix", KLPenalty: "none", KLLoss: "k2", Entropy: "mix",
			}
		})
}
