package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("dr_grpo",
		"Dr. GRPO (Liu et al. 2025), GRPO without its two biases, by arguments alone: rewards less the group's mean and not "+
			"divided by its std (std_cal_level "+
			"none), token losses summed and divided by one length for all (loss_agg_mode seq-mean-token-sum-norm); clipped PPO "+
			"loss, no KL and no reference "+
			"model. Other divisors are arguments too: loss_agg_mode seq-mean-token-mean is GRPO as first published, token-mean "+
			"that of DAPO and BNPO.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "grpo", PolicyLoss: "ppo", KLPenalty: "none", KLLoss: "none", Entropy: "default",
				AdvantageArgs:  map[string]any{"std_cal_level": "none"},
				PolicyLossArgs: map[string]any{"loss_agg_mode": "seq-mean-token-sum-norm"},
			}
		})
}
