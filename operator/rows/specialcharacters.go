package rows

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("special_characters_filter",
		"Keeps rows whose text has a share of special characters within the range: digits, white space, "+
			"punctuation and symbols. Statistic: special_char_ratio. Unlike Data-Juicer: every character is "+
			"special that is neither a letter nor a combining mark, because a list of characters covers few "+
			"scripts; in ASCII both are the same.",
		func() trinity.TaskOperator { return &specialCharacters{ratios(0, 0.25)} })
}

// specialCharacters filters by the share of characters that are not letters.
type specialCharacters struct {
	RatioRange `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *specialCharacters) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "special_char_ratio", func(text string) float64 { return share(text, special) })
}
