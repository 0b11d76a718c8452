package kernel

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestVectorOps checks the vector functions at every length around the lanes against float64, and
// across sets.
func TestVectorOps(t *testing.T) {
	firsts := map[int][]float32{}
	eachSet(t, func(t *testing.T) {
		for n := 1; n < 70; n++ {
			r := rand.New(rand.NewPCG(21, uint64(n)))
			x, y := random(r, n), random(r, n)
			var dot, sq, sumExp float64
			best := math.Inf(-1)
			for i := range x {
				dot += float64(x[i]) * float64(y[i])
				sq += float64(x[i]) * float64(x[i])
				sumExp += math.Exp(float64(x[i]))
				best = max(best, float64(x[i]))
			}
			near(t, "Dot", float64(Dot(x, y)), dot, 1e-5)
			near(t, "SumSquares", SumSquares(nil, x), sq, 1e-5)
			near(t, "LogSumExp", float64(LogSumExp(x)), math.Log(sumExp), 1e-6)
			near(t, "Max", float64(Max(x)), best, 0)
			axpy, sum, scaled, e := append([]float32(nil), y...), append([]float32(nil), y...), make([]float32, n), make([]float32, n)
			Axpy(axpy, x, 1.5)
			AddTo(sum, x)
			Scale(scaled, x, -3)
			Exp(e, x)
			for i := range x {
				near(t, "Axpy", float64(axpy[i]), float64(y[i])+1.5*float64(x[i]), 1e-6)
				near(t, "AddTo", float64(sum[i]), float64(y[i])+float64(x[i]), 1e-6)
				near(t, "Scale", float64(scaled[i]), -3*float64(x[i]), 1e-6)
				near(t, "Exp", float64(e[i]), math.Exp(float64(x[i])), 2e-7)
			}
			all := append(append(append(axpy, sum...), scaled...), e...)
			all = append(all, Dot(x, y), float32(SumSquares(nil, x)), LogSumExp(x))
			if firsts[n] == nil {
				firsts[n] = all
			}
			sameBits(t, fmt.Sprintf("length %d in another set", n), all, firsts[n])
		}
	})
}

// TestExpRange walks the whole range: relative error, and the ends.
func TestExpRange(t *testing.T) {
	const n = 4096
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i] = -87.3 + 176*float32(i)/n
	}
	inf := float32(math.Inf(1))
	special := []float32{-inf, -1000, -87.5, 0, inf, 100, float32(math.NaN()), float32(math.Copysign(0, -1))}
	limit := math.Exp(expMax)
	want := []float64{0, 0, 0, 1, limit, limit, math.NaN(), 1}
	eachSet(t, func(t *testing.T) {
		Exp(y, x)
		for i, v := range x {
			if e := math.Exp(float64(v)); !(math.Abs(float64(y[i])-e) <= 1.5e-7*e) {
				t.Fatalf("exp(%v) = %v, want %v", v, y[i], e)
			}
		}
		for _, length := range []int{len(special), 3 * len(special)} {
			in, out := make([]float32, length), make([]float32, length)
			for i := range in {
				in[i] = special[i%len(special)]
			}
			Exp(out, in)
			for i, v := range out {
				w := want[i%len(want)]
				if math.IsNaN(w) != math.IsNaN(float64(v)) || !math.IsNaN(w) && math.Abs(float64(v)-w) > 1e-5*w {
					t.Fatalf("exp(%v) = %v, want %v", in[i], v, w)
				}
			}
		}
	})
}

// TestSumSquaresAnyPool: the same bits for any number of cores.
func TestSumSquaresAnyPool(t *testing.T) {
	x := random(rand.New(rand.NewPCG(22, 1)), 1_000_003)
	want := SumSquares(nil, x)
	for _, size := range []int{2, 3, 8} {
		pool := NewPool(size)
		if got := SumSquares(pool, x); got != want {
			t.Errorf("pool of %d: %v, want %v", size, got, want)
		}
		pool.Close()
	}
}

// TestFMA32 compares with exact arithmetic on operands whose sum a float64 cannot hold.
func TestFMA32(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 1))
	for range 200_000 {
		a, b := float32(r.NormFloat64()), float32(r.NormFloat64())
		c := float32(math.Ldexp(r.NormFloat64(), r.IntN(80)-40))
		if got, want := fma32(a, b, c), exactFMA(a, b, c); got != want {
			t.Fatalf("fma32(%v, %v, %v) = %v, want %v", a, b, c, got, want)
		}
	}
	// 1 + 2^-24 + 2^-70: float64 rounds it to the tie 1 + 2^-24, which float32 would then round
	// down to 1.
	if got := fma32(1+0x1p-12, 0x1p-35+0x1p-23, 1+0x1p-23); got != exactFMA(1+0x1p-12, 0x1p-35+0x1p-23, 1+0x1p-23) {
		t.Errorf("double rounding: %v", got)
	}
	if got := fma32(0x1p-35, 0x1p-35, 1+0x1p-23); got != 1+0x1p-23 {
		t.Errorf("tiny product: %v", got)
	}
	if got := fma32(float32(math.Inf(1)), 1, 1); !math.IsInf(float64(got), 1) {
		t.Errorf("infinity: %v", got)
	}
}

// exactFMA is a·b + c rounded once, by big floating point.
func exactFMA(a, b, c float32) float32 {
	p := new(big.Float).SetPrec(300).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
	f, _ := p.Add(p, big.NewFloat(float64(c))).Float32()
	return f
}
