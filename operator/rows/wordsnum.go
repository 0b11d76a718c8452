package rows

import (
	"context"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("words_num_filter",
		"Keeps rows whose text has a number of words within the range. A word contains a letter and ends at "+
			"blanks, tabs and line ends. Statistic: num_words. Unlike Data-Juicer: no tokenization by a model, "+
			"because that needs one.",
		func() trinity.TaskOperator {
			return &wordsNum{TextKey: TextKey{"text"}, Interval: closed(), Min: 10, Max: math.MaxInt}
		})
}

// wordsNum filters by the number of words.
type wordsNum struct {
	TextKey  `yaml:",inline"`
	Interval `yaml:",inline"`
	Min      int `yaml:"min_num" doc:"words"`
	Max      int `yaml:"max_num" doc:"words"`
}

// Validate requires a range that is not empty.
func (f *wordsNum) Validate() error {
	return ordered("min_num", float64(f.Min), "max_num", float64(f.Max))
}

// Process implements trinity.TaskOperator.
func (f *wordsNum) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	count := func(text string) float64 { return float64(len(words(text))) }
	return f.measured(rows, "num_words", count, f.Interval, float64(f.Min), float64(f.Max))
}
