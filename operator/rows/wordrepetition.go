package rows

import (
	"context"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("word_repetition_filter",
		"Keeps rows whose text does not repeat itself, measured by its runs of rep_len words, ignoring "+
			"letter case. The ratio is the share of runs that occur more than once. Statistic: word_rep_ratio. "+
			"Unlike Data-Juicer: no tokenization by a model, because that needs one.",
		func() trinity.TaskOperator { return &wordRepetition{repetition()} })
}

// wordRepetition filters by the share of a text in repeated runs of words.
type wordRepetition struct {
	Repetition `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *wordRepetition) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "word_rep_ratio", func(text string) float64 {
		return repeated(shingles(words(strings.ToLower(text)), f.Length), func(different int) int { return different })
	})
}
