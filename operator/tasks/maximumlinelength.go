package tasks

import (
	"context"
	"math"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("maximum_line_length_filter",
		"Keeps rows of whose text the longest line has a number of characters within the range. Statistic: max_line_length.",
		func() trinity.TaskOperator {
			return &MaximumLineLength{TextKey: TextKey{"text"}, Interval: closed(), Min: 10, Max: math.MaxInt}
		})
}

// MaximumLineLength filters by the length of the longest line.
type MaximumLineLength struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Min      int `yaml:"min_len" doc:"characters"`
	Max      int `yaml:"max_len" doc:"characters"`
}

// Validate wants a range.
func (f *MaximumLineLength) Validate() error {
	return ordered("min_len", float64(f.Min), "max_len", float64(f.Max))
}

// Process implements trinity.TaskOperator.
func (f *MaximumLineLength) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	longest := func(text string) float64 {
		most := 0.0
		for line := range strings.Lines(text) {
			most = max(most, characters(strings.TrimRight(line, "\r\n")))
		}
		return most
	}
	return f.measured(rows, "max_line_length", longest, f.Interval, float64(f.Min), float64(f.Max))
}
