package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Advantages.Register("my_median", "scale·(R − median of the group) at every trained token. Metric: invalid_count.",
		func() trinity.Advantage { return &MyMedian{Scale: 1} })
}

// MyMedian takes the median of the group as the baseline, which one lucky rollout does not move:
//
//	A_i = scale·(R_i − median_G), at every trained token of rollout i
//
// Metric: invalid_count (rollouts without a valid reward, which it drops).
type MyMedian struct {
	Scale float64 `yaml:"scale" range:"(0,inf]" doc:"factor of every advantage"`
}

// Needs implements trinity.Advantage: whole groups, and nothing that only the trainer knows.
func (m *MyMedian) Needs() trinity.Needs { return trinity.Needs{Group: true} }

// Advantages implements trinity.Advantage.
func (m *MyMedian) Advantages(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	var kept []trinity.Group
	invalid := 0
	for _, g := range groups {
		valid := slices.DeleteFunc(slices.Clone(g), func(e *trinity.Experience) bool { return !e.Reward.Valid })
		invalid += len(g) - len(valid)
		if len(valid) == 0 {
			continue
		}
		var rewards []float64
		for _, e := range valid {
			if math.IsNaN(e.Reward.Value) || math.IsInf(e.Reward.Value, 0) {
				return nil, nil, fmt.Errorf("experience %s: the reward is %g", e.ID, e.Reward.Value)
			}
			rewards = append(rewards, e.Reward.Value)
		}
		slices.Sort(rewards)
		median := (rewards[(len(rewards)-1)/2] + rewards[len(rewards)/2]) / 2
		for _, e := range valid {
			e.Advantages = make([]float32, len(e.Tokens)) // 0 at tokens that are not trained
			for t, trained := range e.Mask {
				if trained {
					e.Advantages[t] = float32(m.Scale * (e.Reward.Value - median))
				}
			}
		}
		kept = append(kept, valid)
	}
	return kept, trinity.Metrics{"invalid_count": float64(invalid)}, nil
}
