package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("dpo",
		"Direct preference optimization (Rafailov et al. 2023) on a dataset of pairs, the preferred answer first, with a k2 KL to the reference "+
			"model. Mode train only; no explorer or advantage. train_batch_size counts pairs. "+
			"Unlike Trinity-RFT: it has no entropy term, because there that term has weight 0, and the entropy along given answers "+
			"says little about what the policy would write.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "dpo", GroupSize: 1, Offline: true, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "dpo", KLPenalty: "none", KLLoss: "k2", Entropy: "none",
			}
		})
}
