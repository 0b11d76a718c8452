package experience

import (
	"encoding/json"
	"maps"
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
	case nil, bool, string, int, int32, int64, []bool, []string, []int, []int32, []int64, map[string]bool, map[string]string, map[string]int:
		return v, true
	case float64:
		return whole(v, finite(v))
	case float32:
		return whole(v, finite(v))
	case []float32:
		return whole(v, !slices.ContainsFunc(v, infinite))
	case map[string]float64:
		return whole(v, !slices.ContainsFunc(slices.Collect(maps.Values(v)), infinite))
	case []float64:
		if !slices.ContainsFunc(v, infinite) {
			return v, true
		}
		return list(v, func(v float64) (any, bool) { return whole(v, finite(v)) })
	case map[string]any:
		said, changed := Sayable(v)
		return said, changed == nil
	case []any:
		return list(v, sayable)
	}
	_, err := json.Marshal(v)
	return whole(v, err == nil)
}

// whole is a value of which all is left, or nothing.
func whole[T any](v T, ok bool) (said any, same bool) {
	if !ok {
		return nil, false
	}
	return v, true
}

func finite[T float32 | float64](v T) bool { return v-v == 0 } // infinity less itself is no number

func infinite[T float32 | float64](v T) bool { return !finite(v) }

// list is the list itself if all of it is as it was.
func list[T any](values []T, sayable func(T) (any, bool)) (said any, ok bool) {
	var out []any // from the first value on that is not as it was
	for i, v := range values {
		said, same := sayable(v)
		if !same && out == nil {
			out = make([]any, i, len(values))
			for j, before := range values[:i] {
				out[j] = before
			}
		}
		if out != nil {
			out = append(out, said)
		}
	}
	if out == nil {
		return values, true
	}
	return out, false
}
