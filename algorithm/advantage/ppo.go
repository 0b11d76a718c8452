package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// PPO is generalized advantage estimation (Schulman et al. 2016, eq. 16) with the values V of a
// critic, whitened over the trained tokens of the trainer's batch:
//
//	δ_t = r_t + γ·V_t' − V_t
//	A_t = δ_t + γ·λ·A_t'       advantages: (A − mean)/√(variance + 1e-8)
//	R_t = A_t + V_t            returns, which the critic learns
//
// t' is the next token that the policy sampled, and V_t the value of the state in which it chose
// token t. The last trained token of an experience earns its reward. A KL penalty
// (algorithm.kl_penalty_fn) is subtracted at every trained token. After the last token V and A are
// 0, also if the response was truncated.
//
// Each experience is an episode. If a workflow makes several experiences of one run, one per turn,
// the reward of a later turn does not reach an earlier one. The workflow gives each turn the reward
// to learn from, such as the run's.
//
// Unlike Trinity-RFT: tokens of an environment are skipped, in the sums and as next states, because
// the policy does not choose them and the critic does not learn their values. Unlike Trinity-RFT:
// fewer than two trained tokens in a batch have the advantage 0 and are not an error, because none
// is above their mean.
//
// Metrics: invalid_count (experiences dropped for an invalid reward). With a KL penalty also kl,
// kl_coef and rewards/{mean,max,min}, the rewards less the penalty.
type ppo struct {
	tokenRewards
	Gamma float64 `yaml:"gamma" range:"[0,1]" doc:"discount of later rewards and values per token"`
	Lam   float64 `yaml:"lam" range:"[0,1]" doc:"1 sums all rewards (no bias by the critic), 0 has the least variance"`
}

func init() {
	registry.Advantages.Register("ppo",
		"Generalized advantage estimation with a critic (GAE, Schulman et al. 2016): δ_t = r_t + γ·V_t' − V_t, A_t = δ_t + "+
			"γ·λ·A_t', whitened over the "+
			"trainer's batch; t' is the next token that the policy sampled. The critic learns the returns A_t + V_t.",
		func() trinity.Advantage { return &ppo{Gamma: 1, Lam: 1} })
}

// Needs implements trinity.Advantage.
func (a *ppo) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, Values: true, PenalizeKL: a.penalize}
}

func (a *ppo) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return a.actorCritic(ctx, groups, generalized(a.Gamma, a.Lam), whiten)
}
