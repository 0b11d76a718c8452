package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// A2C is the advantage of synchronous advantage actor-critic (Mnih et al. 2016, arXiv 1602.01783,
// §4), with the values V of a critic: the return of the next n_steps tokens, plus the critic's
// value of what follows them, less its value before them:
//
//	A_t = r_t + γ·r_t' + … + γⁿ⁻¹·r_t⁽ⁿ⁻¹⁾ + γⁿ·V_t⁽ⁿ⁾ − V_t       returns: A_t + V_t
//
// t⁽ᵏ⁾ is the k-th next token that the policy sampled; after the last one r and V are 0. Without
// n_steps the sum goes to the end. With lam A is the mean over all n, weighted by (1 − λ)·λⁿ⁻¹:
// generalized advantage estimation, as in advantage_fn ppo. Unlike there, the advantages are not
// whitened. Rewards of tokens and turns are as there.
//
// Unlike Trinity-RFT: it has no such function; the defaults are those of its ppo.
//
// Metrics: invalid_count (experiences dropped for an invalid reward). With a KL penalty also kl,
// kl_coef and rewards/{mean,max,min}, the rewards less the penalty.
type a2c struct {
	tokenRewards
	Gamma  float64  `yaml:"gamma" range:"[0,1]" doc:"discount of later rewards and values per token"`
	NSteps *int     `yaml:"n_steps" range:"[1,)" excludes:"lam" doc:"tokens whose rewards count before the critic's value; null: all"`
	Lam    *float64 `yaml:"lam" range:"[0,1]" doc:"average over all n_steps by GAE, instead of one; null is off"`
}

func init() {
	registry.Advantages.Register("a2c",
		"Advantage actor-critic (Mnih et al. 2016): the discounted return of the next n_steps tokens and the critic's value "+
			"after them, less its value before; "+
			"GAE with lam. Not whitened. The critic learns the returns.",
		func() trinity.Advantage { return &a2c{Gamma: 1} })
}

// Needs implements trinity.Advantage.
func (a *a2c) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, Values: true, PenalizeKL: a.penalize}
}

func (a *a2c) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	asTheyAre := func(_ []*trinity.Experience, x [][]float64) [][]float64 { return x }
	return a.actorCritic(ctx, groups, a.estimator(), asTheyAre)
}

func (a *a2c) estimator() estimator {
	switch {
	case a.NSteps != nil:
		return nStep(a.Gamma, *a.NSteps)
	case a.Lam != nil:
		return generalized(a.Gamma, *a.Lam)
	}
	return generalized(a.Gamma, 1) // the sums over n steps telescope
}
