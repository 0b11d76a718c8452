package rows

import (
	"context"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("average_line_length_filter",
		"Keeps rows whose text has a mean line length within the range, in characters with line ends. "+
			"Statistic: avg_line_length.",
		func() trinity.TaskOperator { return &averageLineLength{fromTen()} })
}

// averageLineLength filters by the mean length of lines.
type averageLineLength struct {
	LengthRange `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *averageLineLength) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return f.within(rows, "avg_line_length", func(text string) float64 {
		lines := 0
		for range strings.Lines(text) {
			lines++
		}
		return characters(text) / float64(max(1, lines))
	})
}
