package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("cpt",
		"Continued pre-training on a dataset of texts: negative log-likelihood of every token after the first. Mode train "+
			"only; no explorer, advantage or "+
			"reference model. format.packing joins texts into sequences of model.max_model_len.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "cpt", GroupSize: 1, Offline: true, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "sft", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
