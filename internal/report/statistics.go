package report

import "math"

// confidence is the probability with which an interval holds the mean of all seeds.
const confidence = 0.95

// Interval is a mean over seeds with its confidence interval by Student's t.
type Interval struct {
	Mean float64  `json:"mean"`
	Low  *float64 `json:"low"` // nil for one seed
	High *float64 `json:"high"`
	N    int      `json:"n"` // seeds
}

// interval returns the mean of one or more values, with its confidence interval.
func interval(values []float64) Interval {
	m, deviation := spread(values)
	out := Interval{Mean: m, N: len(values)}
	if out.N < 2 {
		return out
	}
	if deviation < 1e-12*math.Abs(m) { // rounding
		deviation = 0
	}
	half := studentQuantile(confidence, out.N-1) * deviation / math.Sqrt(float64(out.N))
	if low, high := m-half, m+half; !math.IsInf(low, 0) && !math.IsInf(high, 0) {
		out.Low, out.High = &low, &high
	}
	return out
}

// studentQuantile returns the t that a Student variable with the given degrees of freedom stays
// within, |T| ≤ t, with a probability below 1.
func studentQuantile(probability float64, degrees int) float64 {
	high := 1.0
	for studentWithin(high, degrees) < probability {
		high *= 2
	}
	low := 0.0
	for range 100 {
		if middle := (low + high) / 2; studentWithin(middle, degrees) < probability {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// studentWithin returns the probability of |T| ≤ t (Abramowitz & Stegun 26.7.3, 26.7.4).
func studentWithin(t float64, degrees int) float64 {
	theta := math.Atan(t / math.Sqrt(float64(degrees)))
	sin, cos := math.Sincos(theta)
	term, first := 1.0, 2 // of the sum for an even number of degrees
	if degrees%2 == 1 {
		term, first = cos, 3
	}
	sum := 0.0
	for k := first; k <= degrees; k += 2 {
		sum += term
		term *= cos * cos * float64(k-1) / float64(k)
	}
	if degrees%2 == 1 {
		return 2 / math.Pi * (theta + sin*sum)
	}
	return sin * sum
}
