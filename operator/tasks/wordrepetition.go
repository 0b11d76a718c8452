package tasks

import (
	"context"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("word_repetition_filter",
		"Keeps rows whose text does not repeat itself, by its runs of rep_len words, letter case apart. The ratio is the share of runs that occur more than once. "+
			"Statistic: word_rep_ratio. Unlike Data-Juicer: no tokenization by a model, because that needs one.",
		func() trinity.TaskOperator { return &WordRepetition{repetition()} })
}

// WordRepetition filters by how much of a text is in runs of words that come again.
type WordRepetition struct {
	Repetition `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *WordRepetition) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "word_rep_ratio", func(text string) float64 {
		return repeated(shingles(words(strings.ToLower(text)), f.Length), func(different int) int { return different })
	})
}
