package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// shapes are odd in every dimension at least once, and cross the blocks of rows, columns and k.
var shapes = [][3]int{
	{1, 1, 1}, {1, 16, 8}, {1, 160, 300}, {2, 17, 5}, {3, 31, 7}, {4, 48, 64}, {5, 15, 33}, {6, 16, 256}, {7, 100, 257},
	{8, 64, 40}, {9, 33, 12}, {11, 130, 19}, {12, 32, 520}, {13, 40, 31}, {16, 16, 16}, {23, 70, 290}, {37, 96, 64},
	{64, 50, 70}, {145, 36, 20}, {150, 200, 33}, {3, 0, 4}, {0, 5, 4}, {4, 18, 0},
}

func TestMatMulAgainstFloat64(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	eachSet(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for _, s := range shapes {
			m, n, k := s[0], s[1], s[2]
			for variant := range 8 {
				a, b := randomMatrix(r, m, k, 3), randomMatrix(r, k, n, 1)
				if variant&1 != 0 {
					a = randomMatrix(r, k, m, 2).T()
				}
				if variant&2 != 0 {
					b = randomMatrix(r, n, k, 5).T()
				}
				accumulate := variant&4 != 0
				c := randomMatrix(r, m, n, 4)
				got := products(t, pool, c, a, b, accumulate)
				checkProductResult(t, fmt.Sprintf("%v variant %d", s, variant), got, c, a, b, accumulate)
			}
		}
	})
}

// products computes the same product in several ways, each from its own copy of c; all must agree
// bit for bit.
func products(t *testing.T, pool *Pool, c, a, b Matrix, accumulate bool) Matrix {
	t.Helper()
	w, err := NewPacked(nil, b.Cols, b.Rows, F32)
	if err != nil {
		t.Fatal(err)
	}
	w.Pack(pool, b)
	general, packed, single := clone(c), clone(c), clone(c)
	MatMul(pool, general, a, b, accumulate)
	MatMulPacked(pool, packed, a, w, accumulate)
	MatMulPacked(nil, single, a, w, accumulate)
	sameBits(t, "packed on one core", packed.Data, single.Data)
	sameBits(t, "packed and general", packed.Data, general.Data)
	return general
}

// checkProductResult compares with float64, and checks that the slack between rows is unchanged.
func checkProductResult(t *testing.T, what string, got, before, a, b Matrix, accumulate bool) {
	t.Helper()
	for i := range got.Rows {
		for j := range got.Cols {
			if i%3 != 0 && i != got.Rows-1 && j%5 != 0 { // a sample: tiles are much larger
				continue
			}
			want, size := 0.0, 0.0
			if accumulate {
				want = at(before, i, j)
				size = math.Abs(want)
			}
			for k := range a.Cols {
				want += at(a, i, k) * at(b, k, j)
				size += math.Abs(at(a, i, k) * at(b, k, j))
			}
			if d := math.Abs(at(got, i, j) - want); !(d <= 1e-6*size+1e-30) {
				t.Fatalf("%s: element (%d, %d): %v, want %v", what, i, j, at(got, i, j), want)
			}
		}
		for j := i*got.Stride + got.Cols; j < min(len(got.Data), (i+1)*got.Stride); j++ {
			if got.Data[j] != before.Data[j] {
				t.Fatalf("%s: wrote beyond row %d", what, i)
			}
		}
	}
}

// TestMatMulBatchInvariant: a row's result is the same alone, in any batch, on any pool and in any
// set.
func TestMatMulBatchInvariant(t *testing.T) {
	const m, n, k = 37, 120, 300
	r := rand.New(rand.NewPCG(3, 4))
	a, b := randomMatrix(r, m, k, 0), randomMatrix(r, n, k, 0).T()
	var first Matrix
	eachSet(t, func(t *testing.T) {
		for _, storage := range []Storage{F32, BF16, Int8} {
			w, err := NewPacked(nil, n, k, storage)
			if err != nil {
				t.Fatal(err)
			}
			w.Pack(nil, b)
			whole := NewMatrix(make([]float32, m*n), m, n)
			MatMulPacked(nil, whole, a, w, false)
			if storage == F32 {
				if first.Data == nil {
					first = whole
				}
				sameBits(t, "set", whole.Data, first.Data)
			}
			for _, size := range []int{1, 3} {
				pool := NewPool(size)
				for _, batch := range []int{1, 2, 5, 13, 36} {
					part := NewMatrix(make([]float32, batch*n), batch, n)
					MatMulPacked(pool, part, a.RowRange(0, batch), w, false)
					sameBits(t, fmt.Sprintf("storage %d, pool %d, batch %d", storage, size, batch), part.Data, whole.Data[:batch*n])
				}
				pool.Close()
			}
		}
	})
}

// TestPackedBF16 compares with the f32 product of the rounded weights: the same bits.
func TestPackedBF16(t *testing.T) {
	const m, n, k = 19, 85, 300
	r := rand.New(rand.NewPCG(5, 6))
	a, b := randomMatrix(r, m, k, 0), randomMatrix(r, n, k, 0).T()
	rounded := clone(b)
	for i, v := range rounded.Data {
		rounded.Data[i] = fromBF16(toBF16(v))
	}
	eachSet(t, func(t *testing.T) {
		w, err := NewPacked(nil, n, k, BF16)
		if err != nil {
			t.Fatal(err)
		}
		w.Pack(nil, b)
		got, want := NewMatrix(make([]float32, m*n), m, n), NewMatrix(make([]float32, m*n), m, n)
		MatMulPacked(nil, got, a, w, false)
		MatMul(nil, want, a, rounded, false)
		sameBits(t, "bf16", got.Data, want.Data)
	})
}

// TestMatMulDeepScratch crosses the bound of the packing scratch in both directions.
func TestMatMulDeepScratch(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, s := range [][3]int{{26, 40, 44000}, {26, 8300, 30}} {
		a, b := randomMatrix(r, s[0], s[2], 0), randomMatrix(r, s[2], s[1], 0)
		got := NewMatrix(make([]float32, s[0]*s[1]), s[0], s[1])
		MatMul(nil, got, a, b, false)
		want := 0.0
		for k := range s[2] {
			want += at(a, 25, k) * at(b, k, s[1]-1)
		}
		near(t, "last element", at(got, 25, s[1]-1), want, 1e-4)
	}
}

func TestProductPanics(t *testing.T) {
	x := NewMatrix(make([]float32, 6), 2, 3)
	for name, call := range map[string]func(){
		"inner dimension": func() { MatMul(nil, NewMatrix(make([]float32, 4), 2, 2), x, x, false) },
		"short result":    func() { MatMul(nil, NewMatrix(make([]float32, 3), 2, 2), x, x.T(), false) },
		"short operand":   func() { MatMul(nil, NewMatrix(make([]float32, 4), 2, 2), NewMatrix(x.Data[:5], 2, 3), x.T(), false) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

// TestMatMulAllocatesNothing beyond the closures of its tasks, however large the product.
func TestMatMulAllocatesNothing(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	r := rand.New(rand.NewPCG(9, 9))
	c, a, b := zeros(100, 64), randomMatrix(r, 80, 100, 0).T(), randomMatrix(r, 80, 64, 0)
	if n := testing.AllocsPerRun(20, func() { MatMul(pool, c, a, b, true) }); n > 12 {
		t.Errorf("%v allocations", n)
	}
}

// TestSizesDoNotOverflow: what no memory holds is refused, not wrapped around to something small.
func TestSizesDoNotOverflow(t *testing.T) {
	for _, storage := range []Storage{F32, BF16, Int8} {
		for _, arena := range []*Arena{nil, NewTally()} {
			if _, err := NewPacked(arena, 1<<40, 1<<40, storage); err == nil {
				t.Errorf("storage %d: packed", storage)
			}
		}
	}
	if _, err := NewKVPages(NewTally(), Attention{Heads: 1, KVHeads: 1, HeadDim: 1 << 30}, 1<<40, F32); err == nil {
		t.Error("pages")
	}
}
