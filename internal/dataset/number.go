package dataset

import (
	"encoding/json"
	"strconv"
)

// numbers replaces every json.Number in v by what [number] returns, and returns the result.
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

// number returns an int64 or a float64 if its JSON has the digits of s, else s itself: 3.0, 1e3, and
// numbers that no float64 is.
func number(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(i, 10) == s {
		return i
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if text, err := json.Marshal(f); err == nil && string(text) == s {
			return f
		}
	}
	return json.Number(s)
}
