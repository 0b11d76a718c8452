package trinitytest

import (
	"encoding/json"
	"fmt"

	"github.com/trinity-go/trinity/selector"
)

// Rows is a Dataset in memory.
type Rows []map[string]any

// Len implements selector.Dataset.
func (r Rows) Len() int { return len(r) }

// Row implements selector.Dataset.
func (r Rows) Row(i int) (map[string]any, error) {
	if i < 0 || i >= len(r) {
		return nil, fmt.Errorf("row %d of %d", i, len(r))
	}
	return r[i], nil
}

// ranked returns the dataset of the selector suites: n rows with a number at "rank" for selectors
// that sort, and pass rates at "weak" and "strong".
func ranked(n int) Rows {
	r := make(Rows, n)
	for i := range r {
		r[i] = map[string]any{"rank": float64(i % 4), "weak": float64(i%3) / 4, "strong": float64(i%5)/8 + 0.5}
	}
	return r
}

// InOrder is a Selector that takes the rows in order, again and again.
type InOrder struct {
	rows, next int
	// Seen is the argument of the last Feedback.
	Seen map[int]float64
}

// Start implements selector.Selector.
func (s *InOrder) Start(d selector.Dataset) error { s.rows = d.Len(); return nil }

// Next implements selector.Selector.
func (s *InOrder) Next(n int) ([]int, error) {
	out := make([]int, n)
	for i := range out {
		out[i] = (s.next + i) % s.rows
	}
	s.next += n
	return out, nil
}

// Feedback implements selector.Selector.
func (s *InOrder) Feedback(r map[int]float64) { s.Seen = r }

// State implements selector.Selector.
func (s *InOrder) State() (json.RawMessage, error) { return json.Marshal(s.next) }

// Restore implements selector.Selector.
func (s *InOrder) Restore(state json.RawMessage) error { return json.Unmarshal(state, &s.next) }
