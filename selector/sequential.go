package selector

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Selectors.Register("sequential", "Rows in the order of the dataset, from the first again after the last.",
		func() trinity.Selector { return &Sequential{} })
}

// Sequential takes rows in order, over and over.
type Sequential struct {
	Options `yaml:",inline"`
	progress
}

// Start implements [trinity.Selector].
func (s *Sequential) Start(d trinity.Dataset) error { return s.start(d) }

// Next implements [trinity.Selector].
func (s *Sequential) Next(n int) ([]int, error) {
	first, err := s.take(n)
	if err != nil {
		return nil, err
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = int((first + int64(i)) % int64(s.rows))
	}
	return rows, nil
}
