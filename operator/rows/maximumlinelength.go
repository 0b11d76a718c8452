package rows

import (
	"context"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("maximum_line_length_filter",
		"Keeps rows whose text has a longest line within the range, in characters. Statistic: "+
			"max_line_length.",
		func() trinity.TaskOperator { return &maximumLineLength{fromTen()} })
}

// maximumLineLength filters by the length of the longest line.
type maximumLineLength struct {
	LengthRange `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *maximumLineLength) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "max_line_length", func(text string) float64 {
		most := 0.0
		for line := range strings.Lines(text) {
			most = max(most, characters(strings.TrimRight(line, "\r\n")))
		}
		return most
	})
}
