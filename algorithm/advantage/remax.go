package advantage

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

// ReMax is REINFORCE with the reward of the greedy answer as baseline (Li et al. 2024, eq. 4):
//
//	A_t = Σ_{k≥t} r_k − b, at every trained token
//
// r is as in reinforceplusplus, and b is the reward of the greedy answer to the same task.
//
// b is Info["reward_baseline"]. The explorer writes it: it runs the workflow once more per task, at
// temperature 0, and does not train on this run. Experience.Returns is Σ_{k≥t} r_k. If the greedy
// rollout failed, b is null and the experiences of the task are dropped: a failure is never a
// baseline of 0. Demonstrations have A = 0.
//
// Metrics: invalid_count (experiences dropped for an invalid reward or baseline), and kl and
// kl_coef of the penalty.
type remax struct {
	tokenRewards
}

// baselineKey is the entry of Info in which the explorer stores the reward of the greedy answer.
const baselineKey = "reward_baseline"

func init() {
	registry.Advantages.Register("remax",
		"ReMax (Li et al. 2024): the reward from each token on, less the KL penalty if there is one, and less the reward of "+
			"the greedy answer to the same task, which the explorer "+
			"samples besides. Drops rollouts without a valid reward or baseline.",
		func() trinity.Advantage { return &remax{} })
}

// Needs implements trinity.Advantage.
func (a *remax) Needs() trinity.Needs {
	return trinity.Needs{Batch: true, GreedyReward: true, PenalizeKL: a.penalize}
}

// Advantages implements trinity.Advantage.
func (a *remax) Advantages(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{}
	all, _, err := sampled(groups, metrics)
	if err != nil {
		return nil, nil, err
	}
	var kept []trinity.Group
	var batch []*trinity.Experience
	var baselines []float64
	for _, g := range all {
		var left trinity.Group
		for _, e := range g {
			b, ok, err := a.baseline(e)
			switch {
			case err != nil:
				return nil, nil, err
			case !ok:
				metrics["invalid_count"]++
				continue
			case !e.IsExpert:
				batch, baselines = append(batch, e), append(baselines, b)
			}
			left = append(left, e)
		}
		if len(left) > 0 {
			kept = append(kept, left)
		}
	}
	returns, err := a.of(ctx, batch, metrics)
	if err != nil {
		return nil, nil, err
	}
	for i, e := range batch {
		discount(e, returns[i], 1)
		e.Returns, e.Advantages = narrow(returns[i]), make([]float32, len(e.Mask))
		for t, trained := range e.Mask {
			if trained {
				e.Advantages[t] = float32(returns[i][t] - baselines[i])
			}
		}
	}
	return kept, metrics, nil
}

// baseline returns b; ok is false if the greedy rollout failed.
func (*remax) baseline(e *trinity.Experience) (b float64, ok bool, err error) {
	if e.IsExpert {
		return 0, true, nil
	}
	if raw, present := e.Info[baselineKey]; present && raw == nil {
		return 0, false, nil
	}
	b, ok, err = number(e, baselineKey)
	if err == nil && !ok {
		err = fmt.Errorf("experience %s has no info %s, the reward of the greedy answer, which advantage_fn remax needs: "+
			"explore with the same advantage_fn", e.ID, baselineKey)
	}
	return b, ok, err
}
