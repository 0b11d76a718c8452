package kernel

import (
	"fmt"
	"math"
	"sync"
)

// tail holds the last, incomplete 16 lanes of up to five operands.
type tail [5][lanes]float32

var tailPool = sync.Pool{New: func() any { return new(tail) }}

// pad copies x into operand i and fills the other lanes.
func (t *tail) pad(i int, x []float32, fill float32) *float32 {
	for l := copy(t[i][:], x); l < lanes; l++ {
		t[i][l] = fill
	}
	return &t[i][0]
}

// unary runs f over the whole lanes of y and x, and over the padded rest.
func unary(y, x []float32, f func(y, x *float32, n int)) {
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		f(&y[0], &x[0], n)
	}
	if n < len(x) {
		t := tailPool.Get().(*tail)
		f(t.pad(0, y[n:len(x)], 0), t.pad(1, x[n:], 0), lanes)
		copy(y[n:len(x)], t[0][:])
		tailPool.Put(t)
	}
}

// Dot returns Σ x·y. The order of the sum depends only on the length.
func Dot(x, y []float32) float32 {
	checkLen("Dot", y, len(x))
	return current().dotRow(x, y)
}

// dotRow sums the whole lanes, then the rest.
func (ks *kernels) dotRow(x, y []float32) (sum float32) {
	n := len(x) &^ (lanes - 1)
	if n > 0 {
		sum = ks.dot(&x[0], &y[0], n)
	}
	if n < len(x) {
		t := tailPool.Get().(*tail)
		sum += ks.dot(t.pad(0, x[n:], 0), t.pad(1, y[n:], 0), lanes)
		tailPool.Put(t)
	}
	return sum
}

// Axpy adds a·x to y.
func Axpy(y, x []float32, a float32) {
	checkLen("Axpy", y, len(x))
	ks := current()
	unary(y, x, func(y, x *float32, n int) { ks.axpy(y, x, a, n) })
}

// AddTo adds x to y.
func AddTo(y, x []float32) {
	checkLen("AddTo", y, len(x))
	unary(y, x, current().add)
}

// Scale writes y = a·x; y may be x.
func Scale(y, x []float32, a float32) {
	checkLen("Scale", y, len(x))
	ks := current()
	unary(y, x, func(y, x *float32, n int) { ks.scale(y, x, a, n) })
}

// ScaleRows multiplies x [rows, cols] by a.
func ScaleRows(pool *Pool, x Matrix, a float32) {
	x.checkShape("ScaleRows: x", x.Rows, x.Cols)
	pool.runRows(x.Rows, x.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			Scale(x.Row(i), x.Row(i), a)
		}
	})
}

// Exp writes y = eˣ, relative error below 1e-7, 0 below x = -87.3; y may be x.
func Exp(y, x []float32) {
	checkLen("Exp", y, len(x))
	unary(y, x, current().exp)
}

// Max returns the largest element of x, which must not be empty.
func Max(x []float32) float32 { return current().maxRow(x) }

func (ks *kernels) maxRow(x []float32) float32 {
	n := len(x) &^ (lanes - 1)
	best := x[0]
	if n > 0 {
		best = ks.max(&x[0], n)
	}
	for _, v := range x[n:] {
		best = max(best, v)
	}
	return best
}

// SumSquares returns Σ x². It sums blocks of 4096 elements in f32 and the blocks in float64, in
// order, so any number of cores gives the same bits.
func SumSquares(pool *Pool, x []float32) float64 {
	const block, group = 4096, 64
	ks := current()
	blocks := (len(x) + block - 1) / block
	sums := make([]float64, blocks)
	pool.Run((blocks+group-1)/group, func(task int) {
		for i := task * group; i < min(blocks, (task+1)*group); i++ {
			part := x[i*block : min(len(x), (i+1)*block)]
			sums[i] = float64(ks.dotRow(part, part))
		}
	})
	total := 0.0
	for _, s := range sums {
		total += s
	}
	return total
}

// LogSumExp returns ln Σ eˣ of x, which must not be empty.
func LogSumExp(x []float32) float32 {
	ks := current()
	m := ks.maxRow(x)
	s, _ := ks.entropyRow(x, m)
	return float32(float64(m) + math.Log(s))
}

// SumBlock is the number of elements that a sum over a vocabulary adds in f32. A longer sum would lose the many
// small probabilities of a vocabulary beside a large one: with 49 152 tokens, 1e-5 of the sum.
const SumBlock = 512

// entropyRow sums e = exp(x - m) and e·(x - m) over a row: blocks of [SumBlock] elements in f32, and
// the blocks in float64, in order.
func (ks *kernels) entropyRow(x []float32, m float32) (sum, weighted float64) {
	t := tailPool.Get().(*tail)
	defer tailPool.Put(t)
	sums := (*[2]float32)(t[1][:2])
	add := func(x *float32, n int) {
		ks.entropySum(x, m, sums, n)
		sum, weighted = sum+float64(sums[0]), weighted+float64(sums[1])
	}
	n := len(x) &^ (lanes - 1)
	for from := 0; from < n; from += SumBlock {
		add(&x[from], min(SumBlock, n-from))
	}
	if n < len(x) {
		add(t.pad(0, x[n:], float32(math.Inf(-1))), lanes)
	}
	return sum, weighted
}

// ExpSums writes y = exp(x − m), sets sums to the sums of its blocks of [SumBlock] elements, and
// returns the total, with the bits of the sum behind [Logprob] if m is the largest x. y may be x.
func ExpSums(y, x []float32, m float32, sums []float64) (total float64) {
	checkLen("ExpSums: y", y, len(x))
	if blocks := (len(x) + SumBlock - 1) / SumBlock; len(sums) != blocks {
		panic(fmt.Sprintf("kernel: ExpSums: %d sums of %d blocks", len(sums), blocks))
	}
	ks := current()
	n := len(x) &^ (lanes - 1)
	for from := 0; from < n; from += SumBlock {
		sum := float64(ks.expSum(&y[from], &x[from], m, min(SumBlock, n-from)))
		sums[from/SumBlock] = sum
		total += sum
	}
	if n < len(x) {
		t := tailPool.Get().(*tail)
		defer tailPool.Put(t)
		sum := float64(ks.expSum(t.pad(0, nil, 0), t.pad(1, x[n:], float32(math.Inf(-1))), m, lanes))
		copy(y[n:], t[0][:])
		if n%SumBlock == 0 {
			sums[n/SumBlock] = 0
		}
		sums[n/SumBlock] += sum
		total += sum
	}
	return total
}
