package simulation

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// Lengths is the distribution of responses: log-normal, cut at Max.
type Lengths struct {
	Mean   float64 `json:"mean"`   // tokens, before the cut
	Spread float64 `json:"spread"` // standard deviation of their logarithms; 0 is that all are alike
	Max    float64 `json:"max"`    // tokens; 0 cuts nothing
}

// draw gives one length, at least one token.
func (l Lengths) draw(rng *rand.Rand) float64 {
	n := l.Mean * math.Exp(l.Spread*rng.NormFloat64()-l.Spread*l.Spread/2)
	if l.Max > 0 {
		n = min(n, l.Max)
	}
	return max(1, n)
}

// Spread is the σ, of 3 at most, of a log-normal distribution of which the largest of n draws is on average so many times the mean.
func Spread(mean, largest float64, n int) float64 {
	if n < 2 || !(largest > mean) {
		return 0
	}
	low, high := 0.0, 3.0
	for range 40 {
		if σ := (low + high) / 2; largestOf(n, σ) < largest/mean {
			low = σ
		} else {
			high = σ
		}
	}
	return (low + high) / 2
}

// largestOf is E[max of n draws] / E[a draw]: the mean over u in (0, 1) of exp(σz − σ²/2), with z the u^(1/n) quantile of the normal distribution.
func largestOf(n int, σ float64) float64 {
	const points = 1000
	sum := 0.0
	for i := range points {
		u := math.Pow((float64(i)+0.5)/points, 1/float64(n))
		sum += math.Exp(σ*math.Sqrt2*math.Erfinv(2*u-1) - σ*σ/2)
	}
	return sum / points
}

// step is the rollouts of an explore step.
type step struct {
	tokens []float64 // of each response
	starts []float64 // when each begins, in tokens that a rollout writes
	span   float64   // when the last ends, likewise
}

// draw draws all explore steps.
func draw(s *Setting, r *Rates) []step {
	rng := rand.New(rand.NewPCG(1, 0))
	steps := make([]step, s.Steps)
	for i := range steps {
		steps[i] = inFlight(r.Lengths, rng, int(s.Pace.PerStep), s.InFlight)
	}
	return steps
}

// inFlight lets n rollouts begin in order, so many at once.
func inFlight(l Lengths, rng *rand.Rand, n, atOnce int) step {
	st := step{tokens: make([]float64, n), starts: make([]float64, n)}
	places := make(ends, min(max(1, atOnce), n))
	for i := range n {
		st.tokens[i], st.starts[i] = l.draw(rng), places[0]
		places[0] += st.tokens[i]
		st.span = max(st.span, places[0])
		heap.Fix(&places, 0)
	}
	return st
}

// ends are when places are free again, the first in front.
type ends []float64

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(float64)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
