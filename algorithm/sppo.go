package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("sppo",
		"Softmax PPO (sPPO, Vaswani et al. 2022): rewards less the group's mean, and the log-ratio instead of the ratio, for "+
			"tokens whose ratio is still "+
			"near 1; no KL and no reference model. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "opmd", PolicyLoss: "sppo", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
