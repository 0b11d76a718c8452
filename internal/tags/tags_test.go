package tags

import (
	"math"
	"reflect"
	"testing"
)

// Each bound belongs to an interval or not, NaN to none, and an infinite number only to one with a
// bound inf.
func TestIntervals(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		tag, words string
		in, out    []float64
	}{
		{"[1,)", "at least 1", []float64{1, 1e300}, []float64{0.999, -inf, inf, nan}},
		{"(0,)", "more than 0", []float64{1e-300}, []float64{0, -1, inf, nan}},
		{"[0,1]", "at least 0 and at most 1", []float64{0, 0.5, 1}, []float64{-1e-9, 1.0001, inf, nan}},
		{"(0,0.5)", "more than 0 and less than 0.5", []float64{0.49}, []float64{0, 0.5, nan}},
		{"[0,inf]", "at least 0", []float64{0, inf}, []float64{-1, -inf, nan}},
		{"(,3]", "at most 3", []float64{-1e300, 3}, []float64{3.1, -inf, nan}},
		{"[32,1048576]", "at least 32 and at most 1048576", []float64{32, 1048576}, []float64{31, 1048577}},
		{"[1,1]", "1", []float64{1}, []float64{0, 2, nan}},
		{"(,)", "a finite number", []float64{0, -1e300}, []float64{inf, -inf, nan}},
		{"[-inf,inf]", "a number", []float64{0, inf, -inf}, []float64{nan}},
	} {
		r := ParseInterval(c.tag)
		if r.String() != c.words {
			t.Errorf("%s is %q in words, want %q", c.tag, r, c.words)
		}
		for _, x := range c.in {
			if !r.Has(x) {
				t.Errorf("%v is not in %s", x, c.tag)
			}
		}
		for _, x := range c.out {
			if r.Has(x) {
				t.Errorf("%v is in %s", x, c.tag)
			}
		}
	}
}

// Numbers are found in lists, tables and behind pointers; null has no limit.
func TestOutsideLooksInside(t *testing.T) {
	r, five := ParseInterval("[0,1]"), 5
	for _, c := range []struct {
		v         any
		key, want string
	}{
		{0, "", ""}, {2, "", "2"}, {0.25, "", ""}, {math.NaN(), "", "NaN"}, {&five, "", "5"}, {(*int)(nil), "", ""},
		{[]float64{0, 1, 1.5, 7}, "2", "1.5"}, {map[string]float64{"c": -2, "b": 1, "a": -1}, "a", "-1"},
		{map[string][]int{"a": {1, 9}}, "a.1", "9"}, {"text", "", ""},
	} {
		key, x, found := r.Outside(reflect.ValueOf(c.v))
		if found != (c.want != "") || found && (x != c.want || key != c.key) {
			t.Errorf("%v: %q at %q, %v; want %q at %q", c.v, x, key, found, c.want, c.key)
		}
	}
}
