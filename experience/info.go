package experience

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
)

// Sayable is Info as JSON can say it: entries that JSON has no form for, such as numbers that are not finite, are left out, and null stands for them in lists. The
// names of the entries that this changed are in order; where there are none, it is info itself.
func Sayable(info map[string]any) (said map[string]any, changed []string) {
	for key, v := range info {
		said, ok := sayable(v)
		if ok {
			continue
		}
		if changed == nil {
			info = maps.Clone(info) // siblings may share it
		}
		changed = append(changed, key)
		if info[key] = said; said == nil {
			delete(info, key)
		}
	}
	slices.Sort(changed)
	return info, changed
}

// sayable is one value, and whether it is as it was; nil if nothing is left of it.
func sayable(v any) (said any, ok bool) {
	switch v := v.(type) {
	case nil, bool, string, int, int32, int64:
		return v, true
	case float64:
		return finite(v)
	case float32:
		if _, ok := finite(float64(v)); !ok {
			return nil, false
		}
		return v, true
	case map[string]any:
		said, changed := Sayable(v)
		return said, changed == nil
	case []any:
		return list(v, sayable)
	case []float64:
		return list(v, finite)
	}
	if _, err := json.Marshal(v); err != nil {
		return nil, false
	}
	return v, true
}

func finite(v float64) (said any, ok bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, false
	}
	return v, true
}

// list is the list itself if all of it is as it was.
func list[T any](values []T, sayable func(T) (any, bool)) (said any, ok bool) {
	out, ok := make([]any, len(values)), true
	for i, v := range values {
		said, same := sayable(v)
		out[i], ok = said, ok && same
	}
	if ok {
		return values, true
	}
	return out, false
}
