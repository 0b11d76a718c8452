package cpu

import (
	"math"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// orthogonal is scratch for orthogonalising matrices [rows, cols], with k = min(rows, cols).
type orthogonal struct {
	result                         []float32 // [rows, cols]
	gram, polynomial, all, product []float32 // [k, k]
}

// newtonSchulz brings the singular values of x near 1, to between 0.7 and 1.2, and keeps its singular vectors, but for those whose value is
// below a thousandth of the norm of x: five steps of x ← P·x, P = a·I + b·G + c·G² with G = x·xᵀ (of the shorter side) from x/‖x‖, the quintic
// Newton–Schulz iteration with the coefficients of Jordan et al. 2024. It uses x up, and returns [rows·cols] values that are good until the
// next call. All sums are matrix products, with the same bits for any number of cores.
//
// The steps need x only at the end: as all P are polynomials of the first G, they commute with it and with one another, so that G ← P·G·P, and
// x is multiplied once, by the product of all P. These are symmetric matrices of the shorter side.
func (o *orthogonal) newtonSchulz(e *Engine, x kernel.Matrix) []float32 {
	const steps, a, b, c, least = 5, 3.4445, -4.7750, 2.0315, 1e-7
	norm := math.Sqrt(kernel.SumSquares(e.pool, x.Data))
	e.eachBlock(len(x.Data), func(from, to int) {
		kernel.Scale(x.Data[from:to], x.Data[from:to], float32(1/max(norm, least)))
	})
	k := min(x.Rows, x.Cols)
	square := func(v []float32) kernel.Matrix { return kernel.NewMatrix(v[:k*k], k, k) }
	gram, polynomial, all, product := square(o.gram), square(o.polynomial), square(o.all), square(o.product)
	wide := x.Rows <= x.Cols
	if wide {
		kernel.MatMulSymmetric(e.pool, gram, x, x.T())
	} else {
		kernel.MatMulSymmetric(e.pool, gram, x.T(), x)
	}
	for step := range steps {
		kernel.MatMulSymmetric(e.pool, polynomial, gram, gram)
		e.eachBlock(k*k, func(from, to int) {
			kernel.Scale(polynomial.Data[from:to], polynomial.Data[from:to], c)
			kernel.Axpy(polynomial.Data[from:to], gram.Data[from:to], b)
		})
		for i := range k {
			polynomial.Data[i*k+i] += a
		}
		if step == 0 {
			e.copyFlat(all.Data, polynomial.Data)
		} else {
			kernel.MatMulSymmetric(e.pool, product, polynomial, all)
			all, product = product, all
		}
		if step < steps-1 {
			kernel.MatMulSymmetric(e.pool, product, polynomial, gram)
			kernel.MatMulSymmetric(e.pool, gram, product, polynomial)
		}
	}
	result := kernel.NewMatrix(o.result[:len(x.Data)], x.Rows, x.Cols)
	if wide {
		kernel.MatMul(e.pool, result, all, x, false)
	} else {
		kernel.MatMul(e.pool, result, x, all, false)
	}
	return result.Data
}
