package advantage

import (
	"context"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// GRPO is the group-relative advantage of group relative policy optimization (Shao et al. 2024,
// DeepSeekMath §4.1.1):
//
//	A_i = (R_i − mean_G) / (std_G + ε), at every trained token of rollout i
//
// with the standard deviation over n − 1. A group of one has mean 0 and std 1. Only experiences
// with a valid reward count.
//
// std_threshold drops groups whose std is at most the threshold, and groups of one.
// duplicate_experiences (Polaris, An et al. 2025) refills the batch to its number of groups with
// copies of the groups that it kept. A shuffle seeded by the ids of the batch chooses them, so the
// same batch gives the same copies.
//
// rank_penalty p (unlikeliness reward, He et al. 2025) scales down the rewards of rollouts that the
// policy found likely, so a positive reward falls and a negative one rises:
//
//	R_i ← R_i · (1 − p·rank_i/n)
//
// rank_i = 0 … n−1 is the position in ascending order of the mean log-probability of the trained
// tokens when sampled. Ties are in group order; rollouts without trained tokens come first. The
// scaled rewards replace the rewards everywhere in the formula.
//
// std_cal_level batch divides by the std of all rewards of the batch (Lite PPO, Liu et al. 2025a),
// which counts as 1 if all are equal; the mean is still the group's. none does not divide (Dr.
// GRPO, Liu et al. 2025b), so groups that are almost solved, or almost hopeless, do not count more.
//
// Metrics: group_advantages/reward_mean/{mean,max,min} and
// group_advantages/reward_std/{mean,max,min} over groups (raw rewards; including dropped groups;
// groups of one have no std), filtered_count (experiences dropped by std_threshold) and
// invalid_count (experiences dropped for an invalid reward).
//
// Unlike Trinity-RFT: rank_penalty scales the rewards in the numerator too, because there it scales
// only those of mean and std, so of two rollouts with the same reward the likelier one gets the
// same advantage.
type grpo struct {
	scaling              `yaml:",inline"`
	DuplicateExperiences bool     `yaml:"duplicate_experiences" doc:"replace dropped groups with copies of kept ones"`
	RankPenalty          *float64 `yaml:"rank_penalty" range:"[0,1]" doc:"largest share to take off the reward of likely rollouts; null: off"`
}

func init() {
	registry.Advantages.Register("grpo",
		"Group-relative advantage (GRPO, Shao et al. 2024): (R − mean of the group)/(std of the group + epsilon), std over n − "+
			"1, at every trained token; "+
			"a group of one has mean 0 and std 1. Drops rollouts without a valid reward.",
		newGRPO)
}

func newGRPO() trinity.Advantage { return &grpo{scaling: newScaling()} }

// Needs implements trinity.Advantage.
func (*grpo) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// Advantages implements trinity.Advantage.
func (a *grpo) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{"filtered_count": 0}
	valid, scores, err := a.score(groups, metrics)
	if err != nil {
		return nil, nil, err
	}
	batchStd := unitStd(slices.Concat(scores...))
	var kept []trinity.Group
	for i, g := range valid {
		if a.drops(scores[i]) {
			metrics["filtered_count"] += float64(len(g))
			continue
		}
		for j, s := range a.scores(scores[i], batchStd) {
			write(g[j], s)
		}
		kept = append(kept, g)
	}
	if a.DuplicateExperiences {
		kept = append(kept, duplicates(kept, len(groups)-len(kept))...)
	}
	return kept, metrics, nil
}

// score returns the groups without invalid rewards and the rewards that the formula uses. It counts
// the dropped experiences.
func (a *grpo) score(groups []trinity.Group, metrics trinity.Metrics) (valid []trinity.Group, scores [][]float64, err error) {
	valid, scores, err = scoredGroups(groups, metrics)
	if err != nil || a.RankPenalty == nil {
		return valid, scores, err
	}
	for i, g := range valid {
		if err := penalizeLikely(g, scores[i], *a.RankPenalty); err != nil {
			return nil, nil, err
		}
	}
	return valid, scores, nil
}
