package cpu

import (
	"math"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// orthogonal is scratch for orthogonalising matrices [rows, cols], with k = min(rows, cols).
type orthogonal struct {
	result                         []float32 // [rows, cols]
	gram, polynomial, all, product []float32 // [k, k]
}

// newtonSchulz keeps the singular vectors of x and brings its singular values to between 0.7 and
// 1.2, except for values below a thousandth of the norm of x. It overwrites x and returns
// [rows·cols] values, which the next call overwrites.
//
// It is the quintic Newton–Schulz iteration with the coefficients of Jordan et al. 2024: five steps
// of x ← P·x, P = a·I + b·G + c·G² with G = x·xᵀ (of the shorter side), beginning with x/‖x‖. All
// sums are matrix products, with the same bits for any number of cores.
//
// The steps need x only at the end. All P are polynomials of the first G, so they commute with it
// and with each other: G ← P·G·P, and x is multiplied once, by the product of all P. All of these
// are symmetric matrices of the shorter side.
func (o *orthogonal) newtonSchulz(pool *kernel.Pool, x kernel.Matrix) []float32 {
	const steps, a, b, c, least = 5, 3.4445, -4.7750, 2.0315, 1e-7
	norm := math.Sqrt(kernel.SumSquares(pool, x.Data))
	eachBlock(pool, len(x.Data), func(from, to int) {
		kernel.Scale(x.Data[from:to], x.Data[from:to], float32(1/max(norm, least)))
	})
	k := min(x.Rows, x.Cols)
	square := func(v []float32) kernel.Matrix { return kernel.NewMatrix(v[:k*k], k, k) }
	gram, polynomial, all, product := square(o.gram), square(o.polynomial), square(o.all), square(o.product)
	wide := x.Rows <= x.Cols
	if wide {
		kernel.MatMulSymmetric(pool, gram, x, x.T())
	} else {
		kernel.MatMulSymmetric(pool, gram, x.T(), x)
	}
	for step := range steps {
		kernel.MatMulSymmetric(pool, polynomial, gram, gram)
		eachBlock(pool, k*k, func(from, to int) {
			kernel.Scale(polynomial.Data[from:to], polynomial.Data[from:to], c)
			kernel.Axpy(polynomial.Data[from:to], gram.Data[from:to], b)
		})
		for i := range k {
			polynomial.Data[i*k+i] += a
		}
		if step == 0 {
			copyFlat(pool, all.Data, polynomial.Data)
		} else {
			kernel.MatMulSymmetric(pool, product, polynomial, all)
			all, product = product, all
		}
		if step < steps-1 {
			kernel.MatMulSymmetric(pool, product, polynomial, gram)
			kernel.MatMulSymmetric(pool, gram, product, polynomial)
		}
	}
	result := kernel.NewMatrix(o.result[:len(x.Data)], x.Rows, x.Cols)
	if wide {
		kernel.MatMul(pool, result, all, x, false)
	} else {
		kernel.MatMul(pool, result, x, all, false)
	}
	return result.Data
}
