package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("dapo",
		"Decoupled clip and dynamic sampling policy optimization (DAPO, Yu et al. 2025): GRPO with clip_range_low 0.2 and "+
			"clip_range_high 0.28, no effective dual clip (clip_ratio_c 1e6), token-mean, no KL and no reference model. "+
			"Dynamic sampling and overlong filtering are the operators "+
			"dapo_dynamic_sampling and mask_response_truncated; the overlong penalty is part of reward math_dapo_reward.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 16, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "default",
				PolicyLossArgs: map[string]any{"clip_range_low": 0.2, "clip_range_high": 0.28, "clip_ratio_c": 1e6},
			}
		})
}
