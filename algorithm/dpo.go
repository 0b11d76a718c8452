package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("dpo", "Direct preference optimization (Rafailov et al. 2023) on a dataset of pairs, of which the first answer is preferred, with a k2 KL to the reference "+
		"model beside it. Mode train only; no explorer or advantage. train_batch_size counts pairs. "+
		"Unlike Trinity-RFT: it has no entropy term, because that has weight 0 there and how random the policy is along given answers says little of what it would write.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "dpo", GroupSize: 1, Offline: true, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "dpo", KLPenalty: "none", KLLoss: "k2", Entropy: "none",
			}
		})
}
