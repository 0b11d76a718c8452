package tasks

import (
	"context"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("word_repetition_filter",
		"Keeps rows whose text does not repeat itself, by its runs of rep_len words, letter case apart. The ratio is the share of runs that occur more than once. "+
			"Statistic: word_rep_ratio. Unlike Data-Juicer: no tokenization by a model, because that needs one.",
		func() trinity.TaskOperator {
			return &WordRepetition{TextKey: TextKey{"text"}, Interval: closed(), Length: 10, Max: 0.5}
		})
}

// WordRepetition filters by how much of a text is in runs of words that come again.
type WordRepetition struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Length   int     `yaml:"rep_len" doc:"words of a run"`
	Min      float64 `yaml:"min_ratio" doc:"least ratio"`
	Max      float64 `yaml:"max_ratio" doc:"greatest ratio"`
}

// Validate wants a length and a range.
func (f *WordRepetition) Validate() error {
	if f.Length < 1 {
		return fmt.Errorf("rep_len must be at least 1, got %d", f.Length)
	}
	return ordered("min_ratio", f.Min, "max_ratio", f.Max)
}

// Process implements trinity.TaskOperator.
func (f *WordRepetition) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.measured(rows, "word_rep_ratio", f.ratio, f.Interval, f.Min, f.Max)
}

func (f *WordRepetition) ratio(text string) float64 {
	runs := shingles(words(strings.ToLower(text)), f.Length)
	times := map[string]int{}
	for _, run := range runs {
		times[run]++
	}
	again := 0
	for _, n := range times {
		if n > 1 {
			again += n
		}
	}
	return ratio(again, len(runs))
}
