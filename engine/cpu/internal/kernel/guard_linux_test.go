package kernel

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"
)

// guarded is n floats that end (or, with begin, start) at a page that may not be touched.
func guarded(t *testing.T, n int, begin bool) []float32 {
	t.Helper()
	page := syscall.Getpagesize()
	size := (4*n + page - 1) / page * page
	whole, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(whole) })
	for _, guard := range [][]byte{whole[:page], whole[page+size:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		return nil
	}
	at := page
	if !begin {
		at += size - 4*n
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&whole[at])), n)
}

// guardedCopy is v between guards.
func guardedCopy(t *testing.T, v []float32, begin bool) []float32 {
	g := guarded(t, len(v), begin)
	copy(g, v)
	return g
}

// exactly is m in guarded memory that ends with its last element.
func exactly(t *testing.T, m Matrix, begin bool) Matrix {
	rows, cols := m.Rows, m.Cols
	if m.trans {
		rows, cols = cols, rows
	}
	n := 0
	if rows > 0 && cols > 0 {
		n = (rows-1)*m.Stride + cols
	}
	m.Data = guardedCopy(t, m.Data[:n], begin)
	return m
}

// TestProductsStayWithin multiplies matrices of random shapes that end where memory ends: reading
// or writing beyond one is a fault. All sets give the same bits.
func TestProductsStayWithin(t *testing.T) {
	pool := NewPool(3)
	defer pool.Close()
	r := rand.New(rand.NewPCG(71, 1))
	for round := range 60 {
		m, n, k := r.IntN(60), r.IntN(90), r.IntN(50)
		if round%8 == 0 {
			m, n, k = 1+r.IntN(170), 1+r.IntN(150), 150+r.IntN(400)
		}
		if round%3 == 0 {
			n = n / lanes * lanes // read in place
		}
		a, b := randomMatrix(r, m, k, r.IntN(3)), randomMatrix(r, k, n, r.IntN(3))
		if r.IntN(2) == 0 {
			a = randomMatrix(r, k, m, r.IntN(3)).T()
		}
		if r.IntN(2) == 0 {
			b = randomMatrix(r, n, k, r.IntN(3)).T()
		}
		c, accumulate := randomMatrix(r, m, n, r.IntN(3)), r.IntN(2) == 0
		what := fmt.Sprintf("[%d, %d] = [%d, %d]·[%d, %d] (transposed %t, %t; accumulate %t)", m, n, m, k, k, n, a.trans, b.trans, accumulate)
		t.Run(what, func(t *testing.T) {
			var first [4]Matrix
			eachSet(t, func(t *testing.T) {
				ga, gb := exactly(t, a, round%2 == 0), exactly(t, b, round%2 == 0)
				for i := range first {
					got := exactly(t, c, round%2 == 0)
					if i == 3 {
						MatMul(pool, got, ga, gb, accumulate)
						checkProductResult(t, "MatMul", got, c, a, b, accumulate)
					} else {
						MatMulPacked(pool, got, ga, guardedPacked(t, pool, gb, Storage(i), round%2 == 0), accumulate)
					}
					if first[i].Data == nil {
						first[i] = clone(got)
					}
					sameBits(t, fmt.Sprint("way ", i), got.Data, first[i].Data)
				}
				sameBits(t, "packed and not", first[0].Data, first[3].Data)
			})
		})
	}
}

// guardedPacked is b packed into guarded memory.
func guardedPacked(t *testing.T, pool *Pool, b Matrix, storage Storage, begin bool) *Packed {
	w, err := NewPacked(nil, b.Cols, b.Rows, storage)
	if err != nil {
		t.Fatal(err)
	}
	switch storage {
	case Int8:
		if n := len(w.int8); n > 0 {
			v := guarded(t, n*int(unsafe.Sizeof(int8Weights{}))/4, begin)
			w.int8 = unsafe.Slice((*int8Weights)(unsafe.Pointer(&v[0])), n)
		}
	case BF16:
		if n := len(w.pairs); n > 0 {
			w.pairs = words(guarded(t, n, begin), n)
		}
	default:
		w.f32 = guarded(t, len(w.f32), begin)
	}
	w.Pack(pool, b)
	return w
}

// TestAttentionStaysWithin does the same with attention over rows and over pages.
func TestAttentionStaysWithin(t *testing.T) {
	pool := NewPool(2)
	defer pool.Close()
	for n, c := range attentionCases {
		d := c.data(uint64(n))
		eachSet(t, func(t *testing.T) {
			begin := n%2 == 0
			g := attentionData{exactly(t, d.q, begin), exactly(t, d.k, begin), exactly(t, d.v, begin), exactly(t, d.dout, begin)}
			zero := func(rows, cols int) Matrix { return exactly(t, zeros(rows, cols), begin) }
			out, lse := zero(d.q.Rows, d.q.Cols), zero(d.q.Rows, c.Heads)
			c.Forward(pool, out, lse, g.q, g.k, g.v, c.segments)
			c.Backward(pool, zero(d.q.Rows, d.q.Cols), zero(d.k.Rows, d.k.Cols), zero(d.k.Rows, d.k.Cols), g.dout, out, lse, g.q, g.k, g.v, c.segments)
			for _, storage := range []Storage{F32, BF16} {
				c.Forward(pool, out, lse, g.q, d.stored(storage).k, d.stored(storage).v, c.segments)
				c.pagedWithin(t, pool, g, storage, out, begin)
			}
		})
	}
}

// pagedWithin reads the pages of each segment in guarded memory.
func (c attentionCase) pagedWithin(t *testing.T, pool *Pool, g attentionData, storage Storage, out Matrix, begin bool) {
	kv, tables := c.paged(t, g, storage)
	kv.keys, kv.values = guardedCopy(t, kv.keys, begin), guardedCopy(t, kv.values, begin)
	for s, seg := range c.segments {
		if seg.Len == 0 {
			continue
		}
		var views []View
		for i := range seg.Len {
			views = append(views, View{tables.pages(s), len(c.seenWhole(s, i))})
		}
		var plan Reading
		plan.Plan(c.Attention, pool, views)
		got := exactly(t, zeros(seg.Len, g.q.Cols), begin)
		c.Paged(pool, got, exactly(t, g.q.RowRange(seg.Start, seg.Start+seg.Len), begin), &kv, &plan)
		for i := range seg.Len {
			sameBits(t, fmt.Sprintf("%v in %d segment %d row %d", c.Attention, storage, s, i), got.Row(i), out.Row(seg.Start+i))
		}
	}
}

// TestRowsStayWithin does the same with every row operation.
func TestRowsStayWithin(t *testing.T) {
	r := rand.New(rand.NewPCG(73, 1))
	eachSet(t, func(t *testing.T) {
		for _, begin := range []bool{false, true} {
			for n := 1; n <= 70; n++ {
				v := func() []float32 { return guardedCopy(t, random(r, n), begin) }
				m := func() Matrix { return NewMatrix(guardedCopy(t, random(r, 3*n), begin), 3, n) }
				three := func() []float32 { return guardedCopy(t, random(r, 3), begin) }
				rstd := three()
				RMSNorm(nil, m(), m(), v(), 1e-5, rstd)
				RMSNormBackward(nil, m(), m(), m(), v(), rstd, v())
				SiLU.Forward(nil, m(), m(), m())
				SiLU.Backward(nil, m(), m(), m(), m(), m())
				GELU.Forward(nil, m(), m(), m())
				GELU.Backward(nil, m(), m(), m(), m(), m())
				AddBias(nil, m(), v())
				AddBiasBackward(nil, v(), m())
				Dot(v(), v())
				Axpy(v(), v(), 2)
				AddTo(v(), v())
				Scale(v(), v(), 2)
				Exp(v(), v())
				Max(v())
				SumSquares(nil, v())
				LogSumExp(v())
				targets := []int32{0, int32(n - 1), 0}
				lse, entropy := three(), three()
				LogitStats(nil, m(), targets, lse, entropy, three())
				LogitBackward(nil, m(), targets, lse, entropy, three(), three())
				adam := AdamW{LearningRate: 0.1, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Correction1: 0.1, Correction2: 0.01, GradScale: 1}.Prepare()
				adam.Update(v(), v(), v(), v())
				RoundToBF16(nil, v())
				words := func() []uint16 {
					f := guarded(t, (n+1)/2, begin)
					w := unsafe.Slice((*uint16)(unsafe.Pointer(&f[0])), 2*len(f))
					if begin {
						return w[:n]
					}
					return w[len(w)-n:]
				}
				BF16ToF32(v(), words())
				F32ToBF16(words(), v())
				if n%2 == 0 {
					angles := func() Matrix { return NewMatrix(guardedCopy(t, random(r, 3*n/2), begin), 3, n/2) }
					RoPE(nil, m(), n, angles(), angles(), []int32{2, 0, 1})
				}
			}
		}
	})
}
