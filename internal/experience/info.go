package experience

import (
	"encoding/json"
	"maps"
	"slices"
)

// JSONSafe returns Info without what JSON cannot express, such as numbers that are not finite: it
// drops such entries, and puts null in their place in lists. changed names the entries that differ
// from info, in order. If nothing differs, JSONSafe returns info itself; it never changes info.
func JSONSafe(info map[string]any) (safe map[string]any, changed []string) {
	for key, v := range info {
		value, ok := safeValue(v)
		if ok {
			continue
		}
		if changed == nil {
			info = maps.Clone(info) // other experiences may share it
		}
		changed = append(changed, key)
		if info[key] = value; value == nil {
			delete(info, key)
		}
	}
	slices.Sort(changed)
	return info, changed
}

// safeValue returns what JSON can express of v, nil if nothing, and reports whether that is all of
// v.
func safeValue(v any) (safe any, ok bool) {
	switch v := v.(type) {
	case nil, bool, string, int, int32, int64, []bool, []string, []int, []int32, []int64, map[string]bool, map[string]string, map[string]int:
		return v, true
	case float64:
		return wholeOrNil(v, finite(v))
	case float32:
		return wholeOrNil(v, finite(v))
	case []float32:
		return wholeOrNil(v, !slices.ContainsFunc(v, infinite))
	case map[string]float64:
		return wholeOrNil(v, !slices.ContainsFunc(slices.Collect(maps.Values(v)), infinite))
	case []float64:
		if !slices.ContainsFunc(v, infinite) {
			return v, true
		}
		return safeList(v, func(v float64) (any, bool) { return wholeOrNil(v, finite(v)) })
	case map[string]any:
		safe, changed := JSONSafe(v)
		return safe, changed == nil
	case []any:
		return safeList(v, safeValue)
	}
	_, err := json.Marshal(v)
	return wholeOrNil(v, err == nil)
}

// wholeOrNil returns v if ok, else nil.
func wholeOrNil[T any](v T, ok bool) (any, bool) {
	if !ok {
		return nil, false
	}
	return v, true
}

func finite[T float32 | float64](v T) bool { return v-v == 0 } // infinity minus itself is NaN

func infinite[T float32 | float64](v T) bool { return !finite(v) }

// safeList returns the list itself if JSON can express all of it, else a list with the safe form of
// each value.
func safeList[T any](values []T, safe func(T) (any, bool)) (list any, ok bool) {
	var out []any // nil as long as all values are safe
	for i, v := range values {
		value, same := safe(v)
		if !same && out == nil {
			out = make([]any, i, len(values))
			for j, before := range values[:i] {
				out[j] = before
			}
		}
		if out != nil {
			out = append(out, value)
		}
	}
	if out == nil {
		return values, true
	}
	return out, false
}
