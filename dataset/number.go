package dataset

import (
	"encoding/json"
	"math"
	"strconv"
)

// numbers replaces every json.Number in v by an int64 or float64 and returns the result.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = numbers(x)
		}
	case []any:
		for i, x := range v {
			v[i] = numbers(x)
		}
	case json.Number:
		return number(string(v))
	}
	return v
}

// number returns an int64 for a whole number that fits, so that "3", "3.0" and a double 3 of
// Parquet are equal; else a float64, which is infinite beyond the range.
func number(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, _ := strconv.ParseFloat(s, 64) // the only possible error is the range, and then f is infinite
	const exact = 1 << 53             // above it, neighbouring whole numbers are one float64
	if f == math.Trunc(f) && math.Abs(f) <= exact {
		return int64(f)
	}
	return f
}
