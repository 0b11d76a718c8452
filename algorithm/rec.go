package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("rec",
		"The REC family (Yao et al. 2025), group-relative REINFORCE as an off-policy algorithm: rewards less the group's mean, "+
			"policy gradient with the clip, "+
			"weight and regularizer of policy_loss_fn_args (none by default); k2 KL to the reference model with kl_coef 0.001. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "rec", PolicyLoss: "rec", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
