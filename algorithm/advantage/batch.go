package advantage

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// sampled drops experiences without a valid reward. kept are the groups without them; batch lists
// the remaining experiences that the policy sampled, which the statistics of a trainer batch cover.
// Demonstrations stay in their groups, with advantage 0. The metric invalid_count counts the
// dropped experiences.
func sampled(groups []trinity.Group, metrics trinity.Metrics) (kept []trinity.Group, batch []*trinity.Experience, err error) {
	metrics["invalid_count"] = 0
	for _, g := range groups {
		var left trinity.Group
		for _, e := range g {
			if e.IsExpert {
				write(e, 0)
				left = append(left, e)
				continue
			}
			valid, err := scored(trinity.Group{e})
			if err != nil {
				return nil, nil, err
			}
			metrics["invalid_count"] += float64(1 - len(valid))
			left, batch = append(left, valid...), append(batch, valid...)
		}
		if len(left) > 0 {
			kept = append(kept, left)
		}
	}
	return kept, batch, nil
}

// needed returns an error if e lacks a per-token slice that an advantage reads, or if a value in it
// is not finite.
func needed(e *trinity.Experience, name, origin string, v []float32) error {
	if e.TrainedTokens() == 0 {
		return nil
	}
	if len(v) != len(e.Mask) {
		return fmt.Errorf("experience %s has %d %s for %d tokens, which this advantage needs (%s)", e.ID, len(v), name, len(e.Mask), origin)
	}
	for t, trained := range e.Mask {
		if x := float64(v[t]); trained && (math.IsNaN(x) || math.IsInf(x, 0)) {
			return fmt.Errorf("experience %s: %s of token %d is %v, want a finite number", e.ID, name, t, x)
		}
	}
	return nil
}

// spread sets name/mean and name/std (over n − 1) of values, unless there are none.
func spread(m trinity.Metrics, name string, values []float64) {
	if len(values) > 0 {
		m[name+"/mean"], m[name+"/std"] = mean(values), sampleStd(values)
	}
}

// whitenEpsilon keeps the divisor of whiten above 0.
const whitenEpsilon = 1e-8

// whiten returns (x − m)/√(s² + 1e-8) at the trained tokens of a batch and 0 elsewhere, with m the
// mean and s² the variance (over n − 1) of x over all trained tokens of the batch. If there is only
// one token, or all values are equal, the result is 0.
func whiten(batch []*trinity.Experience, x [][]float64) [][]float64 {
	var all []float64
	for i, e := range batch {
		for t, trained := range e.Mask {
			if trained {
				all = append(all, x[i][t])
			}
		}
	}
	center, std := mean(all), sampleStd(all)
	scale := math.Sqrt(std*std + whitenEpsilon)
	out := make([][]float64, len(batch))
	for i, e := range batch {
		out[i] = make([]float64, len(e.Mask))
		for t, trained := range e.Mask {
			if trained {
				out[i][t] = (x[i][t] - center) / scale
			}
		}
	}
	return out
}

// narrow rounds values per token to float32.
func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for t, v := range x {
		out[t] = float32(v)
	}
	return out
}
