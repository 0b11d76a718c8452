package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// AsymRE is the advantage of asymmetric REINFORCE (Arnal et al. 2025):
//
//	A_i = R_i − (mean_G + baseline_shift), at every trained token of rollout i
//
// A negative shift puts more weight on good rollouts, which keeps training on rollouts of an older
// policy stable. A group of one keeps its reward: A = R. Only experiences with a valid reward
// count.
//
// Metrics: as for rloo, and group_advantages/group_baseline/{mean,max,min} of the baseline over
// groups, 0 for a group of one.
//
// asymre_verl is an alias: Trinity-RFT's variant in the trainer has the same formula.
type asymRE struct {
	BaselineShift float64 `yaml:"baseline_shift" range:"(,)" doc:"added to the group's mean reward; negative favours good rollouts"`
}

func init() {
	const doc = "Asymmetric REINFORCE (Arnal et al. 2025): the reward less the group's mean shifted by baseline_shift; a " +
		"group of one keeps its reward. " +
		"Drops rollouts without a valid reward."
	build := func() trinity.Advantage { return &asymRE{BaselineShift: -0.1} }
	registry.Advantages.Register("asymre", doc, build)
	registry.Advantages.Register("asymre_verl", "Alias of asymre.", build)
}

// Needs implements trinity.Advantage.
func (*asymRE) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// Advantages implements trinity.Advantage.
func (a *asymRE) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return lessBaseline(groups, func(rewards []float64) float64 {
		if len(rewards) == 1 {
			return 0
		}
		return mean(rewards) + a.BaselineShift
	})
}
