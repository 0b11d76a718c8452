package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("kto",
		"Kahneman–Tversky optimization (Ethayarajh et al. 2024) on a dataset of single answers that are labelled desirable or "+
			"not. Needs the reference model. "+
			"Mode train only; no explorer or advantage.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "kto", GroupSize: 1, Offline: true, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "kto", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
