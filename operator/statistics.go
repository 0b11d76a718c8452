package operator

import (
	"math"
	"slices"

	"github.com/trinity-go/trinity"
)

// mean returns the mean of x, which is not empty. For equal values it returns that value without
// the rounding of a sum, so that their deviation is 0.
func mean(x []float64) float64 {
	if slices.Min(x) == slices.Max(x) {
		return x[0]
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// populationStd returns the standard deviation of x, which is not empty, with divisor n.
func populationStd(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// summarize sets name/mean, name/max and name/min, unless there are no values.
func summarize(m trinity.Metrics, name string, values []float64) {
	if len(values) > 0 {
		m[name+"/mean"], m[name+"/max"], m[name+"/min"] = mean(values), slices.Max(values), slices.Min(values)
	}
}
