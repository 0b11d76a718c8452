package experience

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestJSONSafe(t *testing.T) {
	type point struct{ X float64 }
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		info, want map[string]any
		changed    []string
	}{
		"nil":   {nil, nil, nil},
		"empty": {map[string]any{}, map[string]any{}, nil},
		"all sayable": {map[string]any{"a": 1, "b": []any{"x", 2.5}, "c": nil, "d": []float64{1}, "e": point{1}, "f": []float32{2},
			"g": map[string]float64{"x": 1}},
			map[string]any{"a": 1, "b": []any{"x", 2.5}, "c": nil, "d": []float64{1}, "e": point{1}, "f": []float32{2},
				"g": map[string]float64{"x": 1}}, nil},
		"numbers": {map[string]any{"b": inf, "a": nan, "c": float32(nan), "d": float32(2), "e": 1.0},
			map[string]any{"d": float32(2), "e": 1.0}, []string{"a", "b", "c"}},
		"in a list": {map[string]any{"a": []any{1, -inf, "x"}, "b": []float64{nan, 2}},
			map[string]any{"a": []any{1, nil, "x"}, "b": []any{nil, 2.0}}, []string{"a", "b"}},
		"in a map": {map[string]any{"a": map[string]any{"x": inf, "y": []any{map[string]any{"z": nan}}}},
			map[string]any{"a": map[string]any{"y": []any{map[string]any{}}}}, []string{"a"}},
		"other things": {map[string]any{"f": func() {}, "p": point{nan}, "q": []float32{1, float32(inf)},
			"r": map[string]float64{"x": 1, "y": nan}}, map[string]any{}, []string{"f", "p", "q", "r"}},
	} {
		t.Run(name, func(t *testing.T) {
			size := len(c.info)
			got, changed := JSONSafe(c.info)
			if !reflect.DeepEqual(got, c.want) || !slices.Equal(changed, c.changed) {
				t.Errorf("got %v, changed %v; want %v, changed %v", got, changed, c.want, c.changed)
			}
			if len(c.info) != size {
				t.Error("info itself was changed")
			}
		})
	}
}

func TestInfoThatJSONCannotExpress(t *testing.T) {
	e := &trinity.Experience{Tokens: []int32{1}, Mask: []bool{false}, Info: map[string]any{"x": math.NaN(), "y": 1.0, "z": func() {}}}
	data, err := Append(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if want := map[string]any{"y": 1.0}; err != nil || !reflect.DeepEqual(got.Info, want) {
		t.Errorf("got %v, %v; want %v", got.Info, err, want)
	}
}

// BenchmarkJSONSafe and BenchmarkAppendInfo use what agents put into Info: values of each type, and
// a list for every turn.
func talkative() map[string]any {
	turns, scores, names := make([]any, 32), make([]float64, 32), make([]string, 32)
	for i := range turns {
		turns[i], scores[i], names[i] = map[string]any{"tool": "search", "took": 0.25, "ok": true}, float64(i), "search"
	}
	return map[string]any{"env_state_hash": "start", "tries": 3, "score": 0.5, "turns": turns, "scores": scores, "tools": names}
}

func BenchmarkJSONSafe(b *testing.B) {
	info := talkative()
	b.ReportAllocs()
	for b.Loop() {
		JSONSafe(info)
	}
}

func BenchmarkAppendInfo(b *testing.B) {
	e, dst := long(), []byte(nil)
	e.Info = talkative()
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = Append(dst[:0], e)
	}
}
