package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestWeightsInPanels compares products with weights in panels with those of the row-major weights: x·Wᵀ, dy·W, and dy·W over
// some of the outputs.
func TestWeightsInPanels(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	eachSet(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for _, s := range append(slices.Clone(shapes), [3]int{20, 40, 11000}, [3]int{20, 600, 48}) {
			m, n, k := s[0], s[1], s[2]
			w := NewMatrix(random(r, n*k), n, k)
			p := ViewPacked(make([]float32, PackedFloats(n, k)), n, k)
			p.Pack(pool, w.T())
			x, dy := randomMatrix(r, m, k, 3), randomMatrix(r, m, n, 1)
			for _, accumulate := range []bool{false, true} {
				what := fmt.Sprintf("%v, accumulate %t", s, accumulate)
				y, dx := randomMatrix(r, m, n, 2), randomMatrix(r, m, k, 2)
				wantY, wantDX, gotY, gotDX := clone(y), clone(dx), clone(y), clone(dx)
				MatMul(pool, wantY, x, w.T(), accumulate)
				MatMul(pool, gotY, x, p.Weights().T(), accumulate)
				sameBits(t, what+": x·Wᵀ", gotY.Data, wantY.Data)
				MatMul(pool, wantDX, dy, w, accumulate)
				MatMul(pool, gotDX, dy, p.Weights(), accumulate)
				sameBits(t, what+": dy·W", gotDX.Data, wantDX.Data)
				if n > 32 {
					MatMul(pool, wantDX, dy.ColRange(16, n-3), w.RowRange(16, n-3), accumulate)
					MatMul(pool, gotDX, dy.ColRange(16, n-3), p.Weights().RowRange(16, n-3), accumulate)
					sameBits(t, what+": dy·W of some outputs", gotDX.Data, wantDX.Data)
				}
			}
		}
	})
}

// TestRowsOfPanels reads and writes rows of weights in panels, from any row to any other.
func TestRowsOfPanels(t *testing.T) {
	eachSet(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, s := range [][2]int{{1, 1}, {16, 16}, {33, 40}, {50, 7}, {64, 100}, {47, 576}} {
			n, k := s[0], s[1]
			w := random(r, n*k)
			p := ViewPacked(make([]float32, PackedFloats(n, k)), n, k)
			for from := 0; from < n; {
				to := from + 1 + r.IntN(n-from)
				p.SetRows(w[from*k:to*k], from, to)
				from = to
			}
			want := ViewPacked(make([]float32, PackedFloats(n, k)), n, k)
			want.Pack(nil, NewMatrix(w, n, k).T())
			sameBits(t, fmt.Sprintf("%v: panels", s), p.f32, want.f32)
			for range 10 {
				from := r.IntN(n)
				to := from + r.IntN(n-from+1)
				got := make([]float32, (to-from)*k)
				p.Rows(got, from, to)
				sameBits(t, fmt.Sprintf("%v: rows [%d, %d)", s, from, to), got, w[from*k:to*k])
			}
		}
	})
}
