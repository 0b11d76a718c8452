package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("mix_chord",
		"CHORD (Zhang et al. 2025): as mix, with a weight mu of the demonstrations that changes with the trainer step "+
			"(mu_warmup_steps, mu_decay_steps, "+
			"mu_peak, mu_valley) and their tokens weighted by p·(1 − p).",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "mix",
				Advantage: "grpo", PolicyLoss: "mix_chord", KLPenalty: "none", KLLoss: "k2", Entropy: "mix",
			}
		})
}
