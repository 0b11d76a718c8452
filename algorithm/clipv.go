package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("clipv",
		"GRPO that slows the loss of entropy by the vocabulary-normalised clip (Clip_V, Wang et al. 2026): in rollouts below "+
			"the group's mean it masks up to 1 in "+
			"10,000 tokens: those whose punishment would reduce the entropy most. Clipped PPO loss, no KL and no reference model.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "clipv", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "default",
			}
		})
}
