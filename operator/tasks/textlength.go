package tasks

import (
	"context"
	"math"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("text_length_filter", "Keeps rows whose text has a number of characters within the range. Statistic: text_len.",
		func() trinity.TaskOperator {
			return &TextLength{TextKey: TextKey{"text"}, Interval: closed(), Min: 10, Max: math.MaxInt}
		})
}

// TextLength filters by the number of characters.
type TextLength struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Min      int `yaml:"min_len" doc:"characters"`
	Max      int `yaml:"max_len" doc:"characters"`
}

// Validate wants a range.
func (f *TextLength) Validate() error {
	return ordered("min_len", float64(f.Min), "max_len", float64(f.Max))
}

// Process implements trinity.TaskOperator.
func (f *TextLength) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.measured(rows, "text_len", characters, f.Interval, float64(f.Min), float64(f.Max))
}

func characters(text string) float64 { return float64(utf8.RuneCountInString(text)) }
