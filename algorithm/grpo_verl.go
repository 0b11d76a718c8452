package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("grpo_verl",
		"Alias of grpo, known from Trinity-RFT. Unlike Trinity-RFT: its advantage is computed where groups are whole, because "+
			"there the type asks for a "+
			"computation in the trainer that its advantage function cannot do.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 2, SampleStrategy: "default",
				Advantage: "grpo_verl", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
			}
		})
}
