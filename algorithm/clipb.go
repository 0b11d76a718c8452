package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("clipb",
		"GRPO that slows the loss of entropy by the batch-normalised clip (Clip_B, Wang et al. 2026): in rollouts below the "+
			"group's mean it masks the tokens whose "+
			"punishment would reduce the entropy most. Clipped PPO loss, no KL and no reference model.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "clipb", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "default",
			}
		})
}
