package selector

import (
	"math/rand/v2"
)

func init() {
	Selectors.Register("random",
		"Draws every batch independently, without a row twice in a batch; over a run some rows come more "+
			"often than others.",
		func() Selector { return &random{options: options{Seed: 42}} })
}

// random draws every batch without replacement from the whole dataset, by PCG seeded with (seed +
// rows drawn before, 1). A batch larger than the dataset holds every row as often as it fits, and
// draws the rest without replacement.
//
// Unlike Trinity-RFT: the same seed gives other rows, because the generators differ.
type random struct {
	options `yaml:",inline"`
	progress
}

// Start implements [Selector].
func (s *random) Start(d Dataset) error { return s.start(d) }

// Next implements [Selector].
func (s *random) Next(n int) ([]int, error) {
	first, err := s.take(n)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(s.Seed)+uint64(first), 1))
	rows := make([]int, 0, n)
	for len(rows) < n {
		rows = append(rows, sample(rng, s.rows, min(n-len(rows), s.rows))...)
	}
	return rows, nil
}

// sample draws k of the numbers 0 … n−1 without replacement. It takes the first k steps of a
// Fisher-Yates shuffle, in O(k) space.
func sample(rng *rand.Rand, n, k int) []int {
	moved := make(map[int]int, k) // where the shuffled list differs from 0 … n−1
	at := func(i int) int {
		if v, ok := moved[i]; ok {
			return v
		}
		return i
	}
	out := make([]int, k)
	for i := range out {
		j := i + rng.IntN(n-i)
		out[i] = at(j)
		moved[j] = at(i)
	}
	return out
}
