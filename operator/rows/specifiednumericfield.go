package rows

import (
	"context"
	"encoding/json"
	"math"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("specified_numeric_field_filter",
		"Keeps rows in which a field is a number within the range. Text that holds a number counts as one; "+
			"rows with anything else are dropped. Unlike Data-Juicer: a missing field_key is an error, because "+
			"the filter would keep everything.",
		func() trinity.TaskOperator {
			return &specifiedNumericField{Interval: closed(), Min: -math.MaxFloat64, Max: math.MaxFloat64}
		})
}

// specifiedNumericField filters by a numeric field of the row.
type specifiedNumericField struct {
	Interval `yaml:",inline"`
	Key      string  `yaml:"field_key" required:"name the field" doc:"the field; dots lead into nested objects"`
	Min      float64 `yaml:"min_value" doc:"least value"`
	Max      float64 `yaml:"max_value" doc:"greatest value"`
}

// Validate requires a field and a range.
func (f *specifiedNumericField) Validate() error {
	return ordered("min_value", f.Min, "max_value", f.Max)
}

// Process implements trinity.TaskOperator.
func (f *specifiedNumericField) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		v, err := field(r, f.Key)
		if err != nil {
			return false, err
		}
		n, ok := number(v)
		return ok && f.keeps(n, f.Min, f.Max), nil
	})
}

// number converts a value that is a number, or a text with one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		n, err := v.Float64()
		return n, err == nil
	case string:
		n, err := strconv.ParseFloat(v, 64)
		return n, err == nil && !math.IsNaN(n)
	}
	return 0, false
}
