package verify

import (
	"math"
	"slices"
)

// differences collects, for each token, the other engine's log-probability minus the oracle's, in
// nats.
type differences struct {
	all     []float64
	sampled []float64 // the differences of tokens that the other engine drew, at the temperature of the draw
}

func (d *differences) add(difference float64, sampled bool) {
	d.all = append(d.all, difference)
	if sampled {
		d.sampled = append(d.sampled, difference)
	}
}

// Differences summarizes the other engine's log-probabilities minus the oracle's, in nats.
type Differences struct {
	Tokens  int     `json:"tokens"`
	Mean    float64 `json:"mean"` // with its sign
	MeanAbs float64 `json:"mean_abs"`
	P50     float64 `json:"p50"` // of the absolute value
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
	Ratio   float64 `json:"ratio_share"` // of tokens whose exp(difference) is outside of [0.8, 1.25]

	// K1 and K3 estimate KL(theirs ‖ ours) per token from the tokens that the other engine drew. If
	// it drew none, they are computed over the given tokens. With the difference d, K1 is the mean
	// of d and K3 the mean of exp(−d) − 1 + d, which is never negative and varies less (Schulman
	// 2020).
	K1       float64 `json:"k1"`
	K3       float64 `json:"k3"`
	KLTokens int     `json:"kl_tokens"`
}

// largestK3 replaces values that are too large for a float64 or for JSON: servers write -9999 for a
// log-probability of −∞.
const largestK3 = 1e300

func (d *differences) sum() Differences {
	s := Differences{Tokens: len(d.all)}
	if s.Tokens == 0 {
		return s
	}
	size := make([]float64, len(d.all))
	outside := 0
	for i, v := range d.all {
		size[i] = math.Abs(v)
		s.Mean += v / float64(len(d.all))
		s.MeanAbs += size[i] / float64(len(d.all))
		if ratio := math.Exp(v); ratio < 0.8 || ratio > 1.25 {
			outside++
		}
	}
	slices.Sort(size)
	s.P50, s.P99, s.Max = quantile(size, 0.5), quantile(size, 0.99), size[len(size)-1]
	s.Ratio = float64(outside) / float64(len(d.all))
	drawn := d.sampled
	if len(drawn) == 0 {
		drawn = d.all
	}
	s.KLTokens = len(drawn)
	for _, v := range drawn {
		s.K1 += v / float64(len(drawn))
		s.K3 += min(math.Expm1(-v)+v, largestK3) / float64(len(drawn))
	}
	return s
}

// quantile returns the smallest value v for which at least a share q of the values is ≤ v.
func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
