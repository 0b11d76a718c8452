package rows

import (
	"context"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("text_length_filter",
		"Keeps rows whose text has a number of characters within the range. Statistic: text_len.",
		func() trinity.TaskOperator { return &textLength{fromTen()} })
}

// textLength filters by the number of characters.
type textLength struct {
	LengthRange `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *textLength) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "text_len", characters)
}

func characters(text string) float64 { return float64(utf8.RuneCountInString(text)) }
