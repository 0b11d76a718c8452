package tasks

import (
	"context"
	"math"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("average_line_length_filter",
		"Keeps rows of whose text the characters, line ends among them, over the lines are within the range. Statistic: avg_line_length.",
		func() trinity.TaskOperator {
			return &AverageLineLength{TextKey: TextKey{"text"}, Interval: closed(), Min: 10, Max: math.MaxInt}
		})
}

// AverageLineLength filters by the mean length of lines.
type AverageLineLength struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Min      int `yaml:"min_len" doc:"characters"`
	Max      int `yaml:"max_len" doc:"characters"`
}

// Validate wants a range.
func (f *AverageLineLength) Validate() error {
	return ordered("min_len", float64(f.Min), "max_len", float64(f.Max))
}

// Process implements trinity.TaskOperator.
func (f *AverageLineLength) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	mean := func(text string) float64 {
		lines := 0
		for range strings.Lines(text) {
			lines++
		}
		return characters(text) / float64(max(1, lines))
	}
	return f.measured(rows, "avg_line_length", mean, f.Interval, float64(f.Min), float64(f.Max))
}
