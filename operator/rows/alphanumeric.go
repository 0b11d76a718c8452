package rows

import (
	"context"
	"math"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("alphanumeric_filter",
		"Keeps rows whose text has a share of letters and digits within the range. Statistic: alnum_ratio. "+
			"Unlike Data-Juicer: no tokenization by a model, because that needs one.",
		func() trinity.TaskOperator { return &alphanumeric{ratios(0.25, math.MaxFloat64)} })
}

// alphanumeric filters by the share of letters and digits.
type alphanumeric struct {
	RatioRange `yaml:",inline"`
}

// Process implements trinity.TaskOperator.
func (f *alphanumeric) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	alnum := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
	return f.within(rows, "alnum_ratio", func(text string) float64 { return share(text, alnum) })
}
