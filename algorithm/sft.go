package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("sft",
		"Supervised fine-tuning on a dataset of demonstrations: negative log-likelihood of the assistant's messages. Mode "+
			"train only; no explorer, advantage or reference model.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "sft", GroupSize: 1, Offline: true, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "sft", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
