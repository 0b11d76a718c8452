package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("raft",
		"Reward-ranked fine-tuning (RAFT, Dong et al. 2023): SFT on all of the policy's rollouts that reach the trainer. The "+
			"operator reward_filter chooses "+
			"them by its threshold. No advantage, KL or reference model. Unlike Trinity-RFT: it has no advantage function, because "+
			"its loss reads none; there the "+
			"pipeline refuses the default.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 1, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "sft", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
