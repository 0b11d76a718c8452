package tasks

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("character_repetition_filter",
		"Keeps rows whose text does not repeat itself, by its runs of rep_len characters. Of the D different runs the √D most frequent that occur more than once are counted: "+
			"their occurrences over those of all runs are the ratio. Statistic: char_rep_ratio.",
		func() trinity.TaskOperator {
			return &CharacterRepetition{TextKey: TextKey{"text"}, Interval: closed(), Length: 10, Max: 0.5}
		})
}

// CharacterRepetition filters by how much of a text is in runs of characters that come again.
type CharacterRepetition struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Length   int     `yaml:"rep_len" doc:"characters of a run"`
	Min      float64 `yaml:"min_ratio" doc:"least ratio"`
	Max      float64 `yaml:"max_ratio" doc:"greatest ratio"`
}

// Validate wants a length and a range.
func (f *CharacterRepetition) Validate() error {
	if f.Length < 1 {
		return fmt.Errorf("rep_len must be at least 1, got %d", f.Length)
	}
	return ordered("min_ratio", f.Min, "max_ratio", f.Max)
}

// Process implements trinity.TaskOperator.
func (f *CharacterRepetition) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.measured(rows, "char_rep_ratio", f.ratio, f.Interval, f.Min, f.Max)
}

func (f *CharacterRepetition) ratio(text string) float64 {
	chars := []rune(text)
	times := map[string]int{}
	runs := len(chars) - f.Length + 1
	for i := range max(0, runs) {
		times[string(chars[i:i+f.Length])]++
	}
	var again []int
	for _, n := range times {
		if n > 1 {
			again = append(again, n)
		}
	}
	slices.SortFunc(again, func(a, b int) int { return b - a })
	sum := 0
	for _, n := range again[:min(len(again), int(math.Sqrt(float64(len(times)))))] {
		sum += n
	}
	return ratio(sum, max(0, runs))
}
