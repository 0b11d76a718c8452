package algorithm

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Algorithms.Register("cod",
		"Connect-the-Dots, for packs of tasks that a run solves one after the other with hints to itself: advantages as in "+
			"multi_step_grpo. With "+
			"advantage_fn_args.iterative_hint_e2e_causal every episode gets credit for the rewards of what came after it, compared "+
			"with the same episode of the "+
			"pack's other runs. Policy loss rec, one-side clip with importance sampling; k2 KL to the reference model with kl_coef "+
			"0.001. For the causal mode the workflow "+
			"sets exp_type, task_idx or hint_idx, and task_rewards in info. Needs no critic.",
		func() *trinity.Algorithm {
			return &trinity.Algorithm{
				Schema: "experience", GroupSize: 8, SampleStrategy: "default",
				Advantage: "cod", PolicyLoss: "rec", KLPenalty: "none", KLLoss: "k2", Entropy: "default",
				PolicyLossArgs: map[string]any{"clip_mode": "one-side", "weight": "importance_sampling"},
			}
		})
}
