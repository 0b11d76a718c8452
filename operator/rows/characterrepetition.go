package rows

import (
	"context"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("character_repetition_filter",
		"Keeps rows whose text does not repeat itself, measured by its runs of rep_len characters. The √D "+
			"most frequent of the D different runs count if they occur more than once. The ratio is their "+
			"occurrences divided by the occurrences of all runs. Statistic: char_rep_ratio.",
		func() trinity.TaskOperator { return &characterRepetition{repetition()} })
}

// characterRepetition filters by the share of a text in repeated runs of characters.
type characterRepetition struct {
	Repetition `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *characterRepetition) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "char_rep_ratio", func(text string) float64 {
		chars := []rune(text)
		var runs []string
		for i := range max(0, len(chars)-f.Length+1) {
			runs = append(runs, string(chars[i:i+f.Length]))
		}
		return repeated(runs, func(different int) int { return int(math.Sqrt(float64(different))) })
	})
}
