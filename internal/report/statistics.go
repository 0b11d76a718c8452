package report

import "math"

// confidence is the probability with which an interval holds the mean of all seeds.
const confidence = 0.95

// Interval is a mean over seeds, or over rows, with its confidence interval by Student's t.
type Interval struct {
	Mean float64  `json:"mean"`
	Low  *float64 `json:"low"` // nil for one seed
	High *float64 `json:"high"`
	N    int      `json:"n"` // seeds or rows
}

// Difference is a difference between two groups of runs, or between two runs.
type Difference struct {
	Interval
	Over  string `json:"over"`  // what was paired: overTheSeeds or overTheRows
	Tells string `json:"tells"` // withinChance, beyondChance, or "" where the data cannot tell
}

const (
	overTheSeeds = "seeds"
	overTheRows  = "rows" // held-out rows that both answered

	withinChance = "within"
	beyondChance = "beyond"
)

// differing returns a difference with what it tells.
func differing(by Interval, over string) *Difference {
	const few = 6 // seeds: equal differences of fewer are chance in more than 5 % of cases, by their signs alone
	d := &Difference{Interval: by, Over: over}
	switch {
	case d.High == nil, over == overTheSeeds && *d.High == *d.Low && d.Mean != 0 && d.N < few:
	case *d.Low <= 0 && *d.High >= 0:
		d.Tells = withinChance
	default:
		d.Tells = beyondChance
	}
	return d
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

// overRows returns the mean of the differences of two or more rows, with its confidence interval. It counts two rows more, which
// differ by most in either direction by half: few rows that all agree prove little (Agresti and Min, Statistics in
// Medicine 24, 2005). The interval is as wide on both sides as on its wider one.
func overRows(apart []float64, most float64) Interval {
	n := float64(len(apart))
	sum, squares := 0.0, most*most
	for _, d := range apart {
		sum += d
		squares += d * d
	}
	centre := sum / (n + 2)
	deviation := math.Sqrt(max(0, squares/(n+2)-centre*centre))
	m := sum / n
	half := studentQuantile(confidence, len(apart)-1)*deviation/math.Sqrt(n+2) + math.Abs(m-centre)
	low, high := m-half, m+half
	return Interval{m, &low, &high, len(apart)}
}
