package verify

import (
	"math"
	"testing"
)

// TestTails compares the tails with closed forms (for even degrees) and tables.
func TestTails(t *testing.T) {
	for _, c := range []struct {
		x       float64
		degrees int
		want    float64
	}{
		{0, 3, 1}, {3.841458820694124, 1, 0.05}, {1, 1, 0.31731050786291415}, {2, 2, math.Exp(-1)}, {18.307038053275146, 10, 0.05},
		{10, 4, 6 * math.Exp(-5)}, {200, 2, math.Exp(-100)}, {100, 100, 0.4811916847279},
	} {
		if got := chiSquareTail(c.x, c.degrees); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("χ² of %d degrees beyond %v: %v, want %v", c.degrees, c.x, got, c.want)
		}
	}
	if got := normalTail(-1.959963984540054); math.Abs(got-0.05) > 1e-12 {
		t.Errorf("normal: %v", got)
	}
}

func TestChiSquareBins(t *testing.T) {
	for _, c := range []struct {
		counts        map[int32]int
		probabilities []float64
		statistic     float64
		degrees, out  int
	}{
		{map[int32]int{0: 6, 1: 4}, []float64{0.5, 0.5}, 0.4, 1, 0},
		{map[int32]int{0: 10, 1: 6, 2: 3, 3: 1}, []float64{0.5, 0.25, 0.125, 0.125}, 0.2 + 0.2, 2, 0}, // the last two share a bin
		{map[int32]int{0: 10, 1: 9, 2: 1}, []float64{0.5, 0.45, 0.05}, 0, 1, 0},                       // the last one joins the second
		{map[int32]int{0: 20}, []float64{1, 0}, 0, 0, 0},
		{map[int32]int{0: 10, 1: 2, 7: 1}, []float64{1, 0}, 0.6923076923, 0, 3},
	} {
		statistic, degrees, out := chiSquare(c.counts, c.probabilities)
		if math.Abs(statistic-c.statistic) > 1e-9 || degrees != c.degrees || out != c.out {
			t.Errorf("%v: χ² %v, degrees %d, outside %d; want %v, %d, %d", c.counts, statistic, degrees, out, c.statistic, c.degrees, c.out)
		}
	}
}

func TestShaped(t *testing.T) {
	logprobs := []float32{float32(math.Log(0.2)), float32(math.Log(0.5)), float32(math.Log(0.3))}
	for _, c := range []struct {
		temperature, topP float64
		want              []float64
	}{
		{1, 1, []float64{0.2, 0.5, 0.3}}, {0.5, 1, []float64{0.04 / 0.38, 0.25 / 0.38, 0.09 / 0.38}},
		{1, 0.6, []float64{0, 0.625, 0.375}}, {1, 0.4, []float64{0, 1, 0}},
	} {
		for v, p := range shaped(logprobs, c.temperature, c.topP) {
			if math.Abs(p-c.want[v]) > 1e-6 {
				t.Errorf("temperature %v, top_p %v: token %d has %v, want %v", c.temperature, c.topP, v, p, c.want[v])
			}
		}
	}
}

func TestDifferences(t *testing.T) {
	var d differences
	for i := range 100 {
		d.add(float64(i-50)/100, i >= 50)
	}
	s := d.sum()
	want := Differences{Tokens: 100, Mean: -0.005, MeanAbs: 0.25, P50: 0.25, P99: 0.49, Max: 0.5, Ratio: 0.55, KLTokens: 50, K1: 0.245}
	if s.Tokens != want.Tokens || s.P50 != want.P50 || s.P99 != want.P99 || s.Max != want.Max || s.KLTokens != want.KLTokens ||
		math.Abs(s.Mean-want.Mean) > 1e-12 || math.Abs(s.MeanAbs-want.MeanAbs) > 1e-12 || math.Abs(s.K1-want.K1) > 1e-12 ||
		math.Abs(s.Ratio-want.Ratio) > 1e-12 || s.K3 < 0.03 || s.K3 > 0.04 {
		t.Errorf("%+v, want about %+v", s, want)
	}
}

func TestImpossibleTokensGiveFiniteFigures(t *testing.T) {
	var d differences
	d.add(-9999, true)
	d.add(0.5, true)
	if s := d.sum(); math.IsInf(s.K3, 0) || s.K3 < 1e299 {
		t.Errorf("k3 is %v, want a large number that JSON can hold", s.K3)
	}
}

func TestSurprise(t *testing.T) {
	mean, variance := surprise([]float64{0.5, 0.25, 0.25, 0})
	if l := math.Ln2; math.Abs(mean-1.5*l) > 1e-12 || math.Abs(variance-0.25*l*l) > 1e-12 {
		t.Errorf("mean %v, variance %v", mean, variance)
	}
}
