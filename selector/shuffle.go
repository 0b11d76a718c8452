package selector

import (
	"math/rand/v2"
)

func init() {
	Selectors.Register("shuffle",
		"Takes every row once per epoch, in a different order each epoch.",
		func() Selector { return &shuffle{options: options{Seed: 42}} })
}

// shuffle takes every row once per epoch. The order of epoch e, from 0, is the Fisher-Yates
// permutation of PCG seeded with (seed + e, 0). A batch can cross the end of an epoch and then hold
// a row twice.
//
// Unlike Trinity-RFT: the same seed gives another order, because the generators differ.
type shuffle struct {
	options `yaml:",inline"`
	progress

	epoch int64
	order []int // the permutation of epoch; nil before the first draw
}

// Start implements [Selector].
func (s *shuffle) Start(d Dataset) error {
	s.order = nil
	return s.start(d)
}

// Next implements [Selector].
func (s *shuffle) Next(n int) ([]int, error) {
	first, err := s.take(n)
	if err != nil {
		return nil, err
	}
	rows := make([]int, n)
	for i := range rows {
		at := first + int64(i)
		rows[i] = s.permutation(at / int64(s.rows))[at%int64(s.rows)]
	}
	return rows, nil
}

// permutation returns the order of an epoch. It keeps the last one.
func (s *shuffle) permutation(epoch int64) []int {
	if s.order == nil || s.epoch != epoch {
		s.epoch, s.order = epoch, rand.New(rand.NewPCG(uint64(s.Seed)+uint64(epoch), 0)).Perm(s.rows)
	}
	return s.order
}
