package loss

import (
	"math"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
)

// Derivatives that a worker gives reach each trained token once, or are an error.
func FuzzDerivatives(f *testing.F) {
	for _, seed := range []string{
		"", "?", "AAA=", bridge.Pack([]float32{1, 2, 3}), bridge.Pack([]float32{1, 2}), bridge.Pack([]float32{1, float32(math.NaN()), 3}),
		bridge.Pack([]float32{1, 2, float32(math.Inf(-1))}),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		exps := []*trinity.Experience{{Mask: []bool{false, true, false, true}}, {Mask: []bool{false}}, {Mask: []bool{true}}}
		got := map[*trinity.Experience][]float64{}
		err := spread(text, exps, got)
		want, bad := bridge.Unpack(text)
		if (err == nil) != (text == "" || bad == nil && len(want) == 3 && !hasOdd(want)) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil || text == "" {
			return
		}
		for i, v := range append(append([]float64{}, got[exps[0]]...), got[exps[2]]...) {
			if v != float64(want[i]) {
				t.Errorf("%v, want %v", got, want)
			}
		}
		if len(got[exps[0]]) != 2 || len(got[exps[1]]) != 0 || len(got[exps[2]]) != 1 {
			t.Errorf("%v", got)
		}
	})
}

func hasOdd(values []float32) bool {
	for _, v := range values {
		if v != v || math.IsInf(float64(v), 0) {
			return true
		}
	}
	return false
}
