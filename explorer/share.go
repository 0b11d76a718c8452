package explorer

import "github.com/trinity-go/trinity"

// Share is the rows of a dataset that one of several explorers has: those from first on, counted from 0, that are every rows apart. So the shares
// of all explorers are all rows, each once.
type Share struct {
	trinity.Dataset
	first, every int
}

// ShareOf is the k-th share, counted from 1, of n.
func ShareOf(d trinity.Dataset, k, n int) *Share { return &Share{d, k - 1, n} }

// Len implements trinity.Dataset.
func (s *Share) Len() int { return (s.Dataset.Len() - s.first + s.every - 1) / s.every }

// Row implements trinity.Dataset.
func (s *Share) Row(i int) (map[string]any, error) { return s.Dataset.Row(s.number(i)) }

// number is the row's in the whole dataset.
func (s *Share) number(i int) int { return s.first + i*s.every }
