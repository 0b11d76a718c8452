package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// RLOO is REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al. 2024, eq. 8): the reward less
// the mean of the other rollouts' rewards,
//
//	A_i = R_i − mean_{j≠i} R_j = (R_i − mean_G) · n/(n − 1), at every trained token of rollout i
//
// In a group of one A = R. Only experiences with a valid reward count.
//
// Metrics: group_advantages/reward_mean/{mean,max,min} and
// group_advantages/reward_std/{mean,max,min} over groups (groups of one have no std), and
// invalid_count (experiences dropped for an invalid reward).
//
// Unlike Trinity-RFT: it is computed in the pipeline, where the group is whole, because a trainer
// batch may hold part of a group.
type rloo struct{}

func init() {
	registry.Advantages.Register("rloo",
		"REINFORCE leave-one-out (Ahmadian et al. 2024): the reward less the mean reward of the group's other rollouts; a "+
			"group of one keeps its reward. "+
			"Drops rollouts without a valid reward.",
		func() trinity.Advantage { return &rloo{} })
}

// Needs implements trinity.Advantage.
func (*rloo) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// Advantages implements trinity.Advantage.
func (*rloo) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	return perGroup(groups, leaveOneOut)
}

func leaveOneOut(_ trinity.Group, rewards []float64) []float64 {
	n := float64(len(rewards))
	if n == 1 {
		return rewards
	}
	out := minus(rewards, mean(rewards))
	for i := range out {
		out[i] *= n / (n - 1)
	}
	return out
}
