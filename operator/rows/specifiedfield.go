package rows

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.TaskOperators.Register("specified_field_filter",
		"Keeps rows in which a field has one of the given values. If the field is a list, all its entries "+
			"must. Unlike Data-Juicer: a missing field_key or target_value is an error, because the filter would "+
			"keep everything.",
		func() trinity.TaskOperator { return &specifiedField{} })
}

// specifiedField filters by the value of a field.
type specifiedField struct {
	Key      string `yaml:"field_key" required:"name the field" doc:"the field; dots lead into nested objects"`
	Values   []any  `yaml:"target_value" required:"list the values to keep" doc:"values to keep"`
	Reversed bool   `yaml:"reversed_range" doc:"keep the other rows"`
}

// Process implements trinity.TaskOperator.
func (f *specifiedField) Process(_ context.Context, rows []*trinity.TaskRow) ([]*trinity.TaskRow, error) {
	return keep(rows, func(r *trinity.TaskRow) (bool, error) {
		v, err := field(r, f.Key)
		if err != nil {
			return false, err
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		unwanted := slices.ContainsFunc(list, func(v any) bool { return !f.wants(v) })
		return unwanted == f.Reversed, nil
	})
}

// wants reports whether a value is one of the target values. It compares JSON, numbers by their values.
func (f *specifiedField) wants(v any) bool {
	return slices.ContainsFunc(f.Values, func(target any) bool { return comparable(target) == comparable(v) })
}

// comparable returns a text that only equal values have: 3 and 3.0 are equal, and "3" is another.
func comparable(v any) string {
	if _, isText := v.(string); !isText {
		if n, ok := number(v); ok {
			v = n
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%p", v) // no row has it
	}
	return string(text)
}
