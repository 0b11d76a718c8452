package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// int8Product multiplies with Int8 weights.
func int8Product(t *testing.T, pool *Pool, c, a, b Matrix, accumulate bool) Matrix {
	t.Helper()
	w, err := NewPacked(nil, b.Cols, b.Rows, Int8)
	if err != nil {
		t.Fatal(err)
	}
	w.Pack(pool, b)
	got := clone(c)
	MatMulPacked(pool, got, a, w, accumulate)
	return got
}

// blockTop is the largest magnitude of row i of m, in the block of k.
func blockTop(m Matrix, i, k int) float64 {
	top, from := 0.0, k/int8Block*int8Block
	for j := from; j < min(m.Cols, from+int8Block); j++ {
		top = max(top, math.Abs(at(m, i, j)))
	}
	return top
}

// TestInt8AgainstFloat64 holds every element within what half a step of each factor allows, and all
// sets to the same bits.
func TestInt8AgainstFloat64(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	var first []Matrix
	eachSet(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		n := 0
		for _, s := range shapes {
			for variant := range 8 {
				if testing.Short() && variant%5 != 2 {
					continue
				}
				c, a, b := int8Case(r, s, variant)
				accumulate := variant&4 != 0
				got := int8Product(t, pool, c, a, b, accumulate)
				sameBits(t, "one core", int8Product(t, nil, c, a, b, accumulate).Data, got.Data)
				if n == len(first) {
					first = append(first, got)
				}
				sameBits(t, fmt.Sprintf("%v variant %d: set", s, variant), got.Data, first[n].Data)
				n++
				checkInt8(t, fmt.Sprintf("%v variant %d", s, variant), got, c, a, b, accumulate)
			}
		}
	})
}

// int8Case is the operands of a shape; the first two bits of variant transpose them.
func int8Case(r *rand.Rand, shape [3]int, variant int) (c, a, b Matrix) {
	m, n, k := shape[0], shape[1], shape[2]
	a, b = randomMatrix(r, m, k, 3), randomMatrix(r, k, n, 1)
	if variant&1 != 0 {
		a = randomMatrix(r, k, m, 2).T()
	}
	if variant&2 != 0 {
		b = randomMatrix(r, n, k, 5).T()
	}
	return randomMatrix(r, m, n, 4), a, b
}

// checkInt8 compares a sample of the elements with float64, and checks that the slack between rows
// is unchanged.
func checkInt8(t *testing.T, what string, got, before, a, b Matrix, accumulate bool) {
	t.Helper()
	for i := 0; i < got.Rows; i += 3 {
		for j := 0; j < got.Cols; j += 1 + got.Cols/9 {
			want, bound := 0.0, 0.0
			if accumulate {
				want = at(before, i, j)
			}
			for k := range a.Cols {
				x, w := at(a, i, k), at(b, k, j)
				dx, dw := blockTop(a, i, k)/int8InputLimit/2, blockTop(b.T(), j, k)/int8WeightLimit/2
				want += x * w
				bound += math.Abs(x)*dw + math.Abs(w)*dx + dx*dw
			}
			if d := math.Abs(at(got, i, j) - want); !(d <= 1.001*bound+1e-6*math.Abs(want)+1e-30) {
				t.Fatalf("%s: element (%d, %d): %v, want %v within %v", what, i, j, at(got, i, j), want, bound)
			}
		}
	}
	for i := range got.Rows {
		for j := i*got.Stride + got.Cols; j < min(len(got.Data), (i+1)*got.Stride); j++ {
			if got.Data[j] != before.Data[j] {
				t.Fatalf("%s: wrote beyond row %d", what, i)
			}
		}
	}
}

// The largest products do not saturate, zeros and tiny numbers stay finite, and a number that is
// not finite affects only its row or column.
func TestInt8Extremes(t *testing.T) {
	const m, n, k = 9, 33, 192
	eachSet(t, func(t *testing.T) {
		a, b := zeros(m, k), zeros(n, k)
		for i := range a.Data {
			a.Data[i] = float32(127 - 254*(i/k%2))
		}
		for i := range b.Data {
			b.Data[i] = float32(63 - 126*(i/k%2))
		}
		clear(a.Row(2))
		a.Row(3)[70] = float32(math.NaN())
		a.Row(4)[5] = float32(math.Inf(-1))
		for i := range a.Row(6) {
			a.Row(6)[i] = 1e-41
		}
		b.Row(32)[100] = float32(math.Inf(1))
		got := int8Product(t, nil, zeros(m, n), a, b.T(), false)
		for i := range m {
			for j := range n {
				want := 127 * 63 * k * float64(1-2*(i%2)) * float64(1-2*(j%2))
				switch v := at(got, i, j); {
				case i == 3 || i == 4 || j == 32:
					if !math.IsNaN(v) {
						t.Errorf("(%d, %d) is %v, want NaN", i, j, v)
					}
				case i == 2 && v != 0, i == 6 && math.Abs(v) > 1e-36, i != 2 && i != 6 && math.Abs(v-want) > 1e-6*math.Abs(want):
					t.Errorf("(%d, %d) is %v, want %v", i, j, v, want)
				}
			}
		}
	})
}

// TestQuantizeTies compares the integers and sums of every set with the definition, ties among
// them.
func TestQuantizeTies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	src := append(random(r, 5*int8Block), make([]float32, int8Block)...)
	for i := range int8Block {
		src[i] = float32(i-20) / 2
	}
	src[63] = 127
	want := make([]int8Inputs, 6)
	portableQuantize(&want[0], &src[0], int8InputLimit, len(want))
	eachSet(t, func(t *testing.T) {
		got := make([]int8Inputs, len(want))
		current().int8.quantize(&got[0], &src[0], int8InputLimit, len(got))
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("block %d: %v, want %v", i, got[i], want[i])
			}
		}
	})
	if q := want[0].q; q[21] != 0 || q[23] != 2 || q[19] != 0 || q[17] != -2 {
		t.Errorf("halves became %v", q[16:24])
	}
}
