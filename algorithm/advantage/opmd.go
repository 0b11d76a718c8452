package advantage

import (
	"context"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// OPMD is the advantage of online policy mirror descent (Kimi Team 2025, §2.3.2; Pan et al. 2025):
//
//	A_i = R_i − b, at every trained token of rollout i
//	b   = mean_G,  or with opmd_baseline logavgexp  b = τ·ln( (1/n)·Σ_j exp(R_j/τ) )
//
// logavgexp is the value of the policy that a mirror descent step with temperature τ aims at:
// between the mean (τ → ∞) and the best reward (τ → 0) of the group. A group of one has b = 0. Only
// experiences with a valid reward count.
//
// Metrics: as for rloo, and group_advantages/group_baseline/{mean,max,min} of b over groups.
//
// opmd_verl is an alias: Trinity-RFT's variant in the trainer has the same formula.
type opmd struct {
	OPMDBaseline string  `yaml:"opmd_baseline" enum:"mean|logavgexp" doc:"mean of the group's rewards, or the target policy's value"`
	Tau          float64 `yaml:"tau" range:"(0,)" doc:"temperature of logavgexp, in units of reward"`
}

func init() {
	const doc = "Advantage of online policy mirror descent: the reward less the group's mean, or less tau·ln(mean of " +
		"exp(R/tau)); a group of one keeps its reward. " +
		"Drops rollouts without a valid reward."
	build := func() trinity.Advantage { return &opmd{OPMDBaseline: "mean", Tau: 1} }
	registry.Advantages.Register("opmd", doc, build)
	registry.Advantages.Register("opmd_verl", "Alias of opmd.", build)
}

// Needs implements trinity.Advantage.
func (*opmd) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// Advantages implements trinity.Advantage.
func (a *opmd) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return lessBaseline(groups, a.baseline)
}

// baseline returns b.
func (a *opmd) baseline(rewards []float64) float64 {
	switch {
	case len(rewards) == 1:
		return 0
	case a.OPMDBaseline == "mean":
		return mean(rewards)
	}
	best := slices.Max(rewards)
	shares := make([]float64, len(rewards)) // relative to the best, so that none overflows
	for i, r := range rewards {
		shares[i] = math.Exp((r - best) / a.Tau)
	}
	return best + a.Tau*math.Log(mean(shares))
}
