package advantage

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// Step_wise_grpo is GRPO (Shao et al. 2024) for rollouts of several steps. Each step is an
// experience with the run's number and an ascending turn. The outcome of a run is the reward of its
// last step, and every step of the run gets the run's advantage.
//
//	A_i = (R_i − mean_G) / (std_G + ε), at every trained token of every step of run i
//
// with the standard deviation over n − 1 and n the number of runs. std_cal_level batch divides by
// the std of all outcomes of the batch (1 if all are equal) plus ε; none does not divide. A single
// run has mean 0 and std 1. enable_step_norm divides by the number of steps of the run, so long
// runs do not count more. A run whose last step has no valid reward is dropped with all its steps.
//
// std_threshold drops groups whose std is at most the threshold, and groups of one run.
//
// Metrics: group_advantages/reward_mean/{mean,max,min} and
// group_advantages/reward_std/{mean,max,min} over groups (including dropped groups; groups of one
// run have no std), experience_count (experiences with an advantage), filtered_count (experiences
// dropped by std_threshold), skipped_group_ratio (share of groups dropped by it) and invalid_count
// (experiences of runs without a valid outcome).
//
// Unlike Trinity-RFT: the last step is the one with the highest turn, because the order of a list
// may change.
type stepWiseGRPO struct {
	scaling        `yaml:",inline"`
	EnableStepNorm bool `yaml:"enable_step_norm" doc:"divide a run's advantage by its number of steps"`
}

func init() {
	registry.Advantages.Register("step_wise_grpo",
		"GRPO for rollouts of several steps: the reward of a run's last step, normalised over the runs of a task, is the "+
			"advantage of every step of the run; one run "+
			"alone keeps its reward. Drops runs without a valid outcome.",
		func() trinity.Advantage { return newStepWiseGRPO() })
}

func newStepWiseGRPO() *stepWiseGRPO { return &stepWiseGRPO{scaling: newScaling()} }

// Needs implements trinity.Advantage.
func (*stepWiseGRPO) Needs() trinity.Needs { return trinity.Needs{Group: true, Steps: true} }

// Advantages implements trinity.Advantage.
func (a *stepWiseGRPO) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{"experience_count": 0, "filtered_count": 0, "invalid_count": 0, "skipped_group_ratio": 0}
	var runs [][]run
	var valid []trinity.Group
	var all, means, stds []float64
	for _, g := range groups {
		r, left, err := scoredRuns(g)
		if err != nil {
			return nil, nil, err
		}
		metrics["invalid_count"] += float64(len(g) - len(left))
		if len(r) == 0 {
			continue
		}
		runs, valid = append(runs, r), append(valid, left)
		outcome := outcomes(r)
		all, means = append(all, outcome...), append(means, mean(outcome))
		if len(r) > 1 {
			stds = append(stds, sampleStd(outcome))
		}
	}
	batchStd := unitStd(all)
	var kept []trinity.Group
	for i, r := range runs {
		if a.drops(outcomes(r)) {
			metrics["filtered_count"] += float64(len(valid[i]))
			metrics["skipped_group_ratio"] += 1 / float64(len(runs))
			continue
		}
		a.spread(r, batchStd)
		metrics["experience_count"] += float64(len(valid[i]))
		kept = append(kept, valid[i])
	}
	summarize(metrics, "group_advantages/reward_mean", means)
	summarize(metrics, "group_advantages/reward_std", stds)
	return kept, metrics, nil
}

// spread writes the advantages of the runs of a group.
func (a *stepWiseGRPO) spread(runs []run, batchStd float64) {
	scores := a.scores(outcomes(runs), batchStd)
	for i, steps := range runs {
		score := scores[i]
		if a.EnableStepNorm {
			score /= float64(len(steps))
		}
		for _, e := range steps {
			write(e, score)
		}
	}
}
