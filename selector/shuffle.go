package selector

import (
	"math/rand/v2"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Selectors.Register("shuffle", "Every row once per epoch, in an order of its own for each epoch.",
		func() trinity.Selector { return &Shuffle{Options: Options{Seed: 42}} })
}

// Shuffle takes every row once per epoch. The order of epoch e, from 0, is the Fisher-Yates permutation of PCG seeded with (seed + e, 0).
// A batch may reach over the end of an epoch; it can hold a row twice then.
type Shuffle struct {
	Options `yaml:",inline"`
	progress

	epoch int64
	order []int // of epoch; nil before the first draw
}

// Start implements [trinity.Selector].
func (s *Shuffle) Start(d trinity.Dataset) error {
	s.order = nil
	return s.start(d)
}

// Next implements [trinity.Selector].
func (s *Shuffle) Next(n int) ([]int, error) {
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

// permutation is the order of an epoch; that of the last one asked for is kept.
func (s *Shuffle) permutation(epoch int64) []int {
	if s.order == nil || s.epoch != epoch {
		s.epoch, s.order = epoch, rand.New(rand.NewPCG(uint64(s.Seed)+uint64(epoch), 0)).Perm(s.rows)
	}
	return s.order
}
