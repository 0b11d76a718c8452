package advantage

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
)

// number reads a number from the Info of an experience. ok is false if there is none.
func number(e *trinity.Experience, key string) (v float64, ok bool, err error) {
	raw, ok := e.Info[key]
	if !ok {
		return 0, false, nil
	}
	if v, ok = asNumber(raw); !ok {
		return 0, false, fmt.Errorf("experience %s: info %s is %v, want a finite number", e.ID, key, raw)
	}
	return v, true, nil
}

// asNumber converts the kinds of numbers that a workflow or a decoder writes. It reports whether
// raw is a finite number.
func asNumber(raw any) (float64, bool) {
	var v float64
	switch x := raw.(type) {
	case float64:
		v = x
	case float32:
		v = float64(x)
	case int:
		v = float64(x)
	case int32:
		v = float64(x)
	case int64:
		v = float64(x)
	default:
		return 0, false
	}
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}

// list reads a list of numbers from the Info of an experience.
func list(e *trinity.Experience, key string) ([]float64, error) {
	var out []float64
	switch raw := e.Info[key].(type) {
	case []float64:
		out = append(out, raw...)
	case []any:
		for _, r := range raw {
			v, ok := asNumber(r)
			if !ok {
				return nil, fmt.Errorf("experience %s: info %s contains %v, want finite numbers", e.ID, key, r)
			}
			out = append(out, v)
		}
	default:
		return nil, fmt.Errorf("experience %s: info %s is %v, want a list of numbers", e.ID, key, raw)
	}
	for _, v := range out {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("experience %s: info %s contains %v, want finite numbers", e.ID, key, v)
		}
	}
	return out, nil
}
