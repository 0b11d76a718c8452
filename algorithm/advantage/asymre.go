package advantage

import (
	"errors"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// AsymRE is the advantage of asymmetric REINFORCE (Arnal et al. 2025):
//
//	A_i = R_i − (mean_G + baseline_shift), at every trained token of rollout i
//
// A negative shift puts the weight on what went well, which keeps training on rollouts of an older policy stable. A group of one keeps its
// reward: A = R. Counts are of experiences with a valid reward.
//
// Metrics: as of [RLOO].
//
// asymre_verl is another name of it: Trinity-RFT's trainer-side twin has the same formula.
type AsymRE struct {
	BaselineShift float64 `yaml:"baseline_shift" doc:"added to the group's mean, in units of reward; negative favours what went well"`
}

func init() {
	const doc = "Asymmetric REINFORCE (Arnal et al. 2025): the reward less the group's mean shifted by baseline_shift; a group of one keeps its reward. " +
		"Rollouts without a valid reward are left out."
	build := func() trinity.Advantage { return &AsymRE{BaselineShift: -0.1} }
	registry.Advantages.Register("asymre", doc, build)
	registry.Advantages.Register("asymre_verl", "Another name of asymre.", build)
}

// Validate refuses a shift that is not a number.
func (a *AsymRE) Validate() error {
	if math.IsNaN(a.BaselineShift) || math.IsInf(a.BaselineShift, 0) {
		return errors.New("baseline_shift must be a finite number")
	}
	return nil
}

// ComparesRollouts implements trinity.GroupAdvantage.
func (*AsymRE) ComparesRollouts() bool { return true }

// Advantages implements trinity.Advantage.
func (a *AsymRE) Advantages(groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return perGroup(groups, func(_ trinity.Group, rewards []float64) []float64 {
		if len(rewards) == 1 {
			return rewards
		}
		return minus(rewards, mean(rewards)+a.BaselineShift)
	})
}
