package rundir

import (
	"math"
	"slices"
	"testing"
)

func TestSinceTheBest(t *testing.T) {
	nan := math.NaN()
	for name, c := range map[string]struct {
		values []float64
		lower  bool
		since  int
		best   int64 // version, from 1 on; 0 for none
	}{
		"rising":           {[]float64{1, 2, 3}, false, 0, 3},
		"falling":          {[]float64{3, 2, 1}, false, 2, 1},
		"a loss":           {[]float64{3, 2, 1}, true, 0, 3},
		"as good":          {[]float64{2, 2, 2}, false, 2, 1},
		"rounded":          {[]float64{.8958333333333333, .8958333333333335}, false, 1, 1},
		"no number at all": {[]float64{nan, nan}, false, 1, 0},
		"a number after":   {[]float64{nan, 1, nan}, false, 1, 2},
		"infinite":         {[]float64{1, math.Inf(1), 2}, false, 1, 2},
		"worst of all":     {[]float64{1, math.Inf(1), 2}, true, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := Evaluations{Lower: c.lower}
			for i, v := range slices.Backward(c.values) {
				e.Add(int64(i+1), v)
				e.Add(int64(i+1), v)
			}
			if since := e.Since(int64(len(c.values)) + 1); since != c.since || len(e.All) != len(c.values) {
				t.Errorf("%d evaluations since the best of %+v", since, e.All)
			}
			best, ok := e.BestOf(func(int64) bool { return true })
			if best.Version != c.best || ok != (c.best > 0) {
				t.Errorf("the best is %+v", best)
			}
			if e.Since(1) != 0 {
				t.Error("evaluations of later versions count")
			}
		})
	}
}
