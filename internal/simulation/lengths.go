package simulation

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// Lengths is the distribution of response lengths: log-normal, limited to Max.
type Lengths struct {
	Mean   float64 `json:"mean"`   // tokens, before the limit
	Spread float64 `json:"spread"` // standard deviation of the logarithms; 0: all have the mean
	Max    float64 `json:"max"`    // tokens; 0: no limit
}

// draw returns one length, of at least one token.
func (l Lengths) draw(rng *rand.Rand) float64 {
	n := l.Mean * math.Exp(l.Spread*rng.NormFloat64()-l.Spread*l.Spread/2)
	if l.Max > 0 {
		n = min(n, l.Max)
	}
	return max(1, n)
}

// Spread returns the σ, at most 3, of a log-normal distribution for which the largest of n draws is
// on average largest/mean times the mean.
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

// largestOf returns E[max of n draws] / E[a draw]: the mean over u in (0, 1) of exp(σz − σ²/2),
// where z is the u^(1/n) quantile of the normal distribution.
func largestOf(n int, σ float64) float64 {
	const points = 1000
	sum := 0.0
	for i := range points {
		u := math.Pow((float64(i)+0.5)/points, 1/float64(n))
		sum += math.Exp(σ*math.Sqrt2*math.Erfinv(2*u-1) - σ*σ/2)
	}
	return sum / points
}

// step holds the rollouts of an explore step.
type step struct {
	tokens []float64 // of each response
	// span is the time from the begin of the first rollout to the end of the last, in tokens that a
	// rollout writes, for one explorer and no other step in flight.
	span float64
}

// draw draws all explore steps.
func draw(s *Setting, r *Rates) []step {
	rng := rand.New(rand.NewPCG(1, 0))
	steps := make([]step, s.Steps)
	for i := range steps {
		st := step{tokens: make([]float64, s.Pace.PerStep)}
		for j := range st.tokens {
			st.tokens[j] = r.Lengths.draw(rng)
		}
		alone := make(places, s.placesOf(1))
		_, st.span = alone.take(st.tokens, 0)
		steps[i] = st
	}
	return steps
}

// places is a heap with an entry for each slot of a rollout: when the slot is free again.
type places []float64

// places returns the slots that one step can use, of all explorers. More slots would make no engine
// faster.
func (s *Setting) places() *places {
	n := max(1, s.Explorers)
	p := make(places, n*s.placesOf(n))
	return &p
}

// placesOf returns the number of slots that each of n explorers uses. The slots of an explorer
// together write the same number of tokens per second, for any number of slots.
func (s *Setting) placesOf(n int) int {
	share := (int(s.Pace.PerStep) + n - 1) / n
	return min(max(1, s.InFlight), share)
}

// take gives slots to rollouts in order, from now on: each gets the slot that is free first. It
// returns when each rollout begins, and when the last ends.
func (p *places) take(tokens []float64, now float64) (starts []float64, end float64) {
	starts = make([]float64, len(tokens))
	for i, n := range tokens {
		starts[i] = max(now, (*p)[0])
		(*p)[0] = starts[i] + n
		end = max(end, (*p)[0])
		heap.Fix(p, 0)
	}
	return starts, end
}

func (p places) Len() int           { return len(p) }
func (p places) Less(i, j int) bool { return p[i] < p[j] }
func (p places) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }
func (p *places) Push(x any)        { *p = append(*p, x.(float64)) }
func (p *places) Pop() any {
	last := len(*p) - 1
	x := (*p)[last]
	*p = (*p)[:last]
	return x
}
