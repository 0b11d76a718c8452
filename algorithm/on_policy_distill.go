package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("on_policy_distill",
		"On-policy distillation (Agarwal et al. 2024): the student samples, and every token's advantage is the teacher's "+
			"log-probability less the student's; "+
			"clipped PPO loss, no KL and no reference model. Needs a teacher model; ignores rewards.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "on_policy_distill", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
