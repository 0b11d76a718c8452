package dataset

import (
	"encoding/json"
	"math"
	"strconv"
)

// numbers replaces every json.Number below v by an int64 or float64, and returns what becomes of v.
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

// number is an int64 for a whole number that fits, so that "3", "3.0" and a double 3 of Parquet are alike; else a float64, infinite when it is
// beyond that.
func number(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	f, _ := strconv.ParseFloat(s, 64) // the only possible error is of range, which infinity tells
	const exact = 1 << 53             // above it a float64 does not tell neighbouring whole numbers apart
	if f == math.Trunc(f) && math.Abs(f) <= exact {
		return int64(f)
	}
	return f
}
