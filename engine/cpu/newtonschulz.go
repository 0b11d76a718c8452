package cpu

import (
	"math"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// orthogonal is scratch for orthogonalising matrices [rows, cols], with k = min(rows, cols).
type orthogonal struct {
	next       []float32 // [rows, cols]
	gram       []float32 // [k, k]
	polynomial []float32 // [k, k]
}

// newtonSchulz brings the singular values of x near 1, to between 0.7 and 1.2, and keeps its singular vectors, but for those whose value is
// below a thousandth of the norm of x: five steps of x ← a·x + (b·G + c·G²)·x with G = x·xᵀ (of the shorter side) from x/‖x‖, the quintic
// Newton–Schulz iteration with the coefficients of Jordan et al. 2024. It uses x up, and returns [rows·cols] values that are good until the
// next call. All sums are matrix products, with the same bits for any number of cores.
func (o *orthogonal) newtonSchulz(e *Engine, x kernel.Matrix) []float32 {
	const steps, a, b, c, least = 5, 3.4445, -4.7750, 2.0315, 1e-7
	norm := math.Sqrt(kernel.SumSquares(e.pool, x.Data))
	e.eachBlock(len(x.Data), func(from, to int) {
		kernel.Scale(x.Data[from:to], x.Data[from:to], float32(1/max(norm, least)))
	})
	k, wide := min(x.Rows, x.Cols), x.Rows <= x.Cols
	gram, polynomial := kernel.NewMatrix(o.gram[:k*k], k, k), kernel.NewMatrix(o.polynomial[:k*k], k, k)
	next := kernel.NewMatrix(o.next[:len(x.Data)], x.Rows, x.Cols)
	for range steps {
		if wide {
			kernel.MatMul(e.pool, gram, x, x.T(), false)
		} else {
			kernel.MatMul(e.pool, gram, x.T(), x, false)
		}
		kernel.MatMul(e.pool, polynomial, gram, gram, false)
		e.eachBlock(k*k, func(from, to int) {
			kernel.Scale(polynomial.Data[from:to], polynomial.Data[from:to], c)
			kernel.Axpy(polynomial.Data[from:to], gram.Data[from:to], b)
		})
		e.eachBlock(len(x.Data), func(from, to int) { kernel.Scale(next.Data[from:to], x.Data[from:to], a) })
		if wide {
			kernel.MatMul(e.pool, next, polynomial, x, true)
		} else {
			kernel.MatMul(e.pool, next, x, polynomial, true)
		}
		x, next = next, x
	}
	return x.Data
}
