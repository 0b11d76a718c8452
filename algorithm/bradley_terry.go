package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("bradley_terry",
		"Trains a reward model, not a policy, on a dataset of pairs, the preferred answer first (Stiennon et al. 2020). The model gets a head "+
			"that gives a whole sequence one number. Mode train only; no explorer, advantage or reference model. "+
			"train_batch_size counts pairs. reward_model and math_rm_workflow open what it saves. "+
			"Unlike Trinity-RFT: there is such an algorithm.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "dpo", GroupSize: 1, Offline: true, SampleStrategy: "default",
				Advantage: "none", PolicyLoss: "bradley_terry", KLPenalty: "none", KLLoss: "none", Entropy: "none",
			}
		})
}
