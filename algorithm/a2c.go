package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("a2c",
		"Synchronous advantage actor-critic (Mnih et al. 2016): returns less a critic's values as advantages, plain policy "+
			"gradient (policy loss ppo with "+
			"fallback_to_policy_gradient: no ratio and no clip), an entropy term with the weight entropy_coef, no KL and no "+
			"reference model. n_steps or lam of the "+
			"advantage cut the return. Trains a critic besides the policy.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 1, SampleStrategy: "default",
				Advantage: "a2c", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "default",
				PolicyLossArgs: map[string]any{"fallback_to_policy_gradient": true},
			}
		})
}
