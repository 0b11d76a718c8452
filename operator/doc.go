// Package operator holds the operators, which edit a step's groups between explorer and buffer,
// before the algorithm computes advantages. Each has one file and is registered under its YAML
// name.
//
// A rollout without a valid reward does not count as reward 0: means and counts of right and wrong
// rollouts leave it out. It stays in its group unless an operator's description says that it drops
// it.
package operator

import (
	"math"

	"github.com/trinity-go/trinity"
)

// scored reports whether the experience has a valid, finite reward.
func scored(e *trinity.Experience) bool {
	return e.Reward.Valid && !math.IsNaN(e.Reward.Value) && !math.IsInf(e.Reward.Value, 0)
}

// rewards lists the rewards of the scored experiences of a group.
func rewards(g trinity.Group) []float64 {
	var r []float64
	for _, e := range g {
		if scored(e) {
			r = append(r, e.Reward.Value)
		}
	}
	return r
}

// keep returns the groups without the experiences that ok refuses and without groups that are empty
// then. The metric filtered_count is the number of dropped experiences.
func keep(groups []trinity.Group, ok func(*trinity.Experience) bool) ([]trinity.Group, trinity.Metrics) {
	kept, filtered := make([]trinity.Group, 0, len(groups)), 0
	for _, g := range groups {
		var left trinity.Group
		for _, e := range g {
			if ok(e) {
				left = append(left, e)
			}
		}
		filtered += len(g) - len(left)
		if len(left) > 0 {
			kept = append(kept, left)
		}
	}
	return kept, trinity.Metrics{"filtered_count": float64(filtered)}
}
