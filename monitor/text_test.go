package monitor

import (
	"math"
	"testing"
	"time"
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
		if got := sparkline(c.values); got != c.want {
			t.Errorf("sparkline(%v) = %q, want %q", c.values, got, c.want)
		}
	}
}

func TestSeriesKeepsTheNewest(t *testing.T) {
	var s series
	for i := range 3 * seriesLength {
		s.add(map[string]float64{"x": float64(i)}, "x")
		s.add(map[string]float64{"y": 1}, "x")
	}
	if len(s) != seriesLength || s[0] != 2*seriesLength {
		t.Errorf("%d values from %v", len(s), s[0])
	}
	if got, want := s.text(3), "359  ▁▅█  357 … 359"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNumbersHaveShortUnits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(5400 * time.Millisecond), "5s"}, {duration(62 * time.Minute), "1h02m"}, {duration(184 * time.Second), "3m04s"},
		{duration(49 * time.Hour), "2d01h"},
		{seconds(0.123), "0.12s"}, {seconds(100), "1m40s"}, {seconds(12.3), "12s"}, {seconds(99.7), "100s"},
		{perSecond(999), "999 tok/s"}, {perSecond(1234), "1.23k tok/s"}, {perSecond(2.5e6), "2.5M tok/s"},
		{positive(0), ""}, {positive(3), "3"}, {cut("abcdef", 4), "abc…"}, {cut("abcd", 4), "abcd"}, {cut("a", 0), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
