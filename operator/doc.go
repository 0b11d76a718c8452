// Package operator holds the operators: what is done to a step's groups between explorer and buffer, before the algorithm's advantage. One
// file each, registered under the name that the YAML uses.
//
// A rollout without a valid reward is no rollout of reward 0: it takes part in no mean and no count of rights and wrongs. It stays in its
// group unless an operator says that it drops it; the advantage leaves it out.
package operator

import (
	"math"

	"github.com/trinity-go/trinity"
)

// scored reports whether the experience has a reward that can be computed with.
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

// keep returns the groups without the experiences that ok refuses, and without groups of which nothing is left. filtered_count is the number
// of experiences that were dropped.
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
