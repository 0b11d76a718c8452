package verify

import (
	"math"
	"slices"
)

// chiSquareTail returns the probability that a χ² variable with the given degrees of freedom is at
// least x.
func chiSquareTail(x float64, degrees int) float64 {
	if x <= 0 {
		return 1
	}
	return gammaTail(float64(degrees)/2, x/2)
}

// normalTail returns the probability that a standard normal variable is at least |z| away from 0.
func normalTail(z float64) float64 { return math.Erfc(math.Abs(z) / math.Sqrt2) }

// gammaTail returns the regularised upper incomplete gamma function Q(a, x): for x < a + 1 by its
// series, else by its continued fraction with Lentz's method (Abramowitz & Stegun 6.5.29, 6.5.31).
func gammaTail(a, x float64) float64 {
	const precision, most = 1e-14, 100_000
	lg, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - lg)
	if x < a+1 {
		term, sum := 1/a, 1/a
		for n := 1; n < most && term > sum*precision; n++ {
			term *= x / (a + float64(n))
			sum += term
		}
		return max(0, 1-front*sum)
	}
	const tiny = 1e-300
	b := x + 1 - a
	c, d := 1/tiny, 1/b
	h := d
	for i := 1; i < most; i++ {
		an := float64(i) * (a - float64(i))
		b += 2
		d = 1 / nonzero(b+an*d, tiny)
		c = nonzero(b+an/c, tiny)
		h *= c * d
		if math.Abs(c*d-1) < precision {
			break
		}
	}
	return front * h
}

func nonzero(v, tiny float64) float64 {
	if math.Abs(v) < tiny {
		return tiny
	}
	return v
}

// minExpected is the least expected count of a bin: below it the χ² distribution is a poor
// approximation (Cochran 1954).
const minExpected = 5

// chiSquare returns Pearson's statistic of counts against probabilities, by token. Each token with
// an expected count ≥ minExpected has a bin; all others share one bin. degrees is 0 if there is one
// bin. impossible counts draws with probability 0; they are in no bin.
func chiSquare(counts map[int32]int, probabilities []float64) (statistic float64, degrees, impossible int) {
	n := 0
	for token, c := range counts {
		n += c
		if token < 0 || int(token) >= len(probabilities) {
			impossible += c
		}
	}
	type bin struct{ expected, observed float64 }
	var bins []bin
	var rest bin
	for token, p := range probabilities {
		c := counts[int32(token)]
		switch expected := p * float64(n); {
		case p == 0:
			impossible += c
		case expected >= minExpected:
			bins = append(bins, bin{expected, float64(c)})
		default:
			rest.expected += expected
			rest.observed += float64(c)
		}
	}
	switch {
	case rest.expected >= minExpected || len(bins) == 0:
		bins = append(bins, rest)
	case rest.expected > 0:
		least := 0
		for i := range bins {
			if bins[i].expected < bins[least].expected {
				least = i
			}
		}
		bins[least].expected += rest.expected
		bins[least].observed += rest.observed
	}
	for _, b := range bins {
		if b.expected > 0 {
			statistic += (b.observed - b.expected) * (b.observed - b.expected) / b.expected
		}
	}
	return statistic, len(bins) - 1, impossible
}

// shaped returns the probabilities [V] that sampling with a temperature and a nucleus draws from:
// it divides the logits by the temperature, keeps the smallest set of most likely tokens whose
// probabilities reach topP, and renormalizes.
func shaped(logprobs []float32, temperature, topP float64) []float64 {
	p := make([]float64, len(logprobs))
	best := float64(slices.Max(logprobs))
	sum := 0.0
	for v, l := range logprobs {
		p[v] = math.Exp((float64(l) - best) / temperature)
		sum += p[v]
	}
	for v := range p {
		p[v] /= sum
	}
	if topP >= 1 {
		return p
	}
	order := byProbability(p)
	kept, n := 0.0, 0
	for ; n < len(order) && kept < topP; n++ {
		kept += p[order[n]]
	}
	for _, v := range order[n:] {
		p[v] = 0
	}
	for _, v := range order[:n] {
		p[v] /= kept
	}
	return p
}

// byProbability returns all tokens, the most likely first.
func byProbability(p []float64) []int32 {
	order := make([]int32, len(p))
	for v := range order {
		order[v] = int32(v)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case p[a] > p[b]:
			return -1
		case p[a] < p[b]:
			return 1
		}
		return 0
	})
	return order
}

// surprise returns the mean and the variance of −log p of a token drawn from p, in nats: the
// entropy and the varentropy.
func surprise(p []float64) (mean, variance float64) {
	square := 0.0
	for _, q := range p {
		if q > 0 {
			l := -math.Log(q)
			mean += q * l
			square += q * l * l
		}
	}
	return mean, max(0, square-mean*mean)
}
