package monitor

import (
	"math"
	"testing"
)

func TestSparklineDrawsValuesAsBlocks(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   string
	}{
		{nil, ""},
		{[]float64{0, 1, 2, 3, 4, 5, 6, 7}, "▁▂▃▄▅▆▇█"},
		{[]float64{5, 5}, "▅▅"},
		{[]float64{math.NaN(), 0, math.Inf(1), 1, math.Inf(-1)}, " ▁ █ "},
		{[]float64{-math.MaxFloat64, math.MaxFloat64}, "▁█"},
		{[]float64{math.NaN()}, " "},
	} {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, v := range c.values {
			if isFinite(v) {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
		if got := sparkline(c.values, lo, hi); got != c.want {
			t.Errorf("sparkline(%v) = %q, want %q", c.values, got, c.want)
		}
	}
}

// A curve covers the whole run, from the first step to the last, and keeps its range.
func TestACurveCoversTheWholeRun(t *testing.T) {
	for _, c := range []struct {
		name         string
		total, steps int64
		width        int
		want         string
	}{
		{"one step", 100, 1, 10, "1"},
		{"the first tenth", 100, 20, 10, "20  ▃▆  1 … 20"},
		{"all", 100, 100, 10, "100  ▁▂▃▃▄▅▆▆▇█  1 … 100"},
		{"fewer steps than columns", 4, 4, 10, "4  ▁▃▆█  1 … 4"},
		{"more steps than bins", 10000, 10000, 5, "1e+04  ▂▃▅▆▇  1 … 1e+04"},
		{"more steps than expected", 10, 1000, 4, "1000  ▂▄▅▇  1 … 1000"},
		{"an unknown number", 0, 480, 4, "480  ▂▄▅▇  1 … 480"},
	} {
		v := newCurve(c.total)
		for step := range c.steps {
			v.add(step+1, float64(step+1))
		}
		if got := v.text(c.width); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if len(v.bins) > curveBins {
			t.Errorf("%s: %d bins", c.name, len(v.bins))
		}
	}
	resumed := newCurve(10)
	resumed.add(7, 1)
	resumed.add(8, math.NaN())
	resumed.add(9, 2)
	if got, want := resumed.text(10), "2        ▁ █  1 … 2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNumbersHaveShortUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{perSecond(999), "999 tok/s"}, {perSecond(1234), "1.23k tok/s"}, {perSecond(2.5e6), "2.5M tok/s"},
		{positive(0), ""}, {positive(3), "3"}, {cut("abcdef", 4), "abc…"}, {cut("abcd", 4), "abcd"}, {cut("a", 0), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
