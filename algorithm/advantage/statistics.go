// Package advantage holds the functions that turn the rewards of a group, the rollouts of one task,
// into an advantage per token.
//
// An experience with an invalid reward counts in no statistic, gets no advantage and is not in the
// returned groups: a failed rollout is never a reward of 0. A group without remaining experiences
// is dropped.
package advantage

import (
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// scored returns the experiences of a group that have a valid reward, in order. A valid reward that
// is not finite is an error.
func scored(g trinity.Group) (trinity.Group, error) {
	kept := make(trinity.Group, 0, len(g))
	for _, e := range g {
		if !e.Reward.Valid {
			continue
		}
		if math.IsNaN(e.Reward.Value) || math.IsInf(e.Reward.Value, 0) {
			return nil, fmt.Errorf("experience %s: its reward is %v, want a finite number or an invalid reward with a reason", e.ID, e.Reward.Value)
		}
		kept = append(kept, e)
	}
	return kept, nil
}

// rewards returns the reward of each experience.
func rewards(g trinity.Group) []float64 {
	r := make([]float64, len(g))
	for i, e := range g {
		r[i] = e.Reward.Value
	}
	return r
}

// write gives every trained token the advantage a, and every other token 0.
func write(e *trinity.Experience, a float64) {
	e.Advantages = make([]float32, len(e.Tokens))
	for t, trained := range e.Mask {
		if trained {
			e.Advantages[t] = float32(a)
		}
	}
}

// mean returns the mean of x, 0 if x is empty. The mean of equal values is exactly that value,
// without the rounding error of a sum, so their standard deviation is 0 and a group of equal
// rewards is recognised as teaching nothing.
func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	if slices.Min(x) == slices.Max(x) {
		return x[0]
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// sampleStd returns the standard deviation with divisor n − 1; 0 for fewer than two values.
func sampleStd(x []float64) float64 {
	if len(x) < 2 {
		return 0
	}
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}

// unitStd returns sampleStd, or 1 if that is 0. So equal rewards in the batch do not blow up a
// group of one, which has no mean to compare with.
func unitStd(x []float64) float64 {
	if std := sampleStd(x); std > 0 {
		return std
	}
	return 1
}

// summarize sets name/mean, name/max and name/min, unless there are no values.
func summarize(m trinity.Metrics, name string, values []float64) {
	if len(values) == 0 {
		return
	}
	lo, hi := values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	m[name+"/mean"], m[name+"/max"], m[name+"/min"] = mean(values), hi, lo
}
