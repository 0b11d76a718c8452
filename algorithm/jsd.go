package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("jsd",
		"On-policy distillation by the generalised Jensen–Shannon divergence (Agarwal et al. 2024), with the teacher's share "+
			"lambda_coef 0.5 in the mixture; "+
			"clipped PPO loss, no KL and no reference model. Needs a teacher model; ignores rewards.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "jsd", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
