package advantage

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// PPO is generalized advantage estimation (Schulman et al. 2016, eq. 16) with the values V of a critic, whitened over the trained tokens of the
// trainer's batch:
//
//	δ_t = r_t + γ·V_t' − V_t
//	A_t = δ_t + γ·λ·A_t'       advantages: (A − mean)/√(variance + 1e-8)
//	R_t = A_t + V_t            returns, which the critic learns
//
// t' is the next token that the policy sampled, and V_t the value of the state that token t was taken in. The reward of an experience is that
// of its last trained token, less a KL penalty at every one of them (algorithm.kl_penalty_fn). Beyond the last token V and A are 0, also where
// the response was cut off.
//
// Each experience is an episode. Of a workflow that makes several experiences of one run, a turn each, no later turn's reward reaches an
// earlier turn: it gives each the reward that it is to learn from, such as the run's.
//
// Unlike Trinity-RFT: tokens of an environment are left out, in the sums and as next states, because the policy does not choose them and
// the critic does not learn their values.
// Unlike Trinity-RFT: fewer than two trained tokens in a batch have the advantage 0 and are no error, because nothing is above their mean.
//
// Metrics: invalid_count (experiences without a valid reward, which are left out); of a KL penalty kl, kl_coef and
// rewards/{mean,max,min}, what it leaves of the rewards.
type PPO struct {
	tokenRewards
	Gamma float64 `yaml:"gamma" doc:"discount of later rewards and values per token, in [0, 1]"`
	Lam   float64 `yaml:"lam" doc:"in [0, 1]: 1 adds up the rewards (no bias of the critic's), 0 trusts the critic one token ahead (least variance)"`
}

func init() {
	registry.Advantages.Register("ppo", "Generalized advantage estimation with a critic (GAE, Schulman et al. 2016): δ_t = r_t + γ·V_t' − V_t, A_t = δ_t + γ·λ·A_t', whitened over the "+
		"trainer's batch; t' is the next token that the policy sampled. The critic learns the returns A_t + V_t.",
		func() trinity.Advantage { return &PPO{Gamma: 1, Lam: 1} })
}

// Validate checks ranges.
func (a *PPO) Validate() error { return discounts(a.Gamma, a.Lam) }

// Needs implements trinity.TrainerAdvantage.
func (*PPO) Needs() trinity.Needs { return trinity.Needs{Values: true} }

func (a *PPO) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return a.actorCritic(groups, generalized(a.Gamma, a.Lam), whiten)
}
