package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("raft", "Reward-ranked fine-tuning (RAFT, Dong et al. 2023): SFT on the policy's own rollouts, all that reach the trainer: the operator reward_filter chooses "+
		"which, by its threshold. No advantage, KL or reference model. Unlike Trinity-RFT: it has no advantage function, because its loss reads none; there the "+
		"default is one that the pipeline refuses.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 1, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "sft", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
