package cpu

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// linear is y = x·Wᵀ + bias, plus low-rank updates of some of its outputs.
type linear struct {
	weight kernel.Matrix // [out, in]
	bias   []float32     // [out] or nil
	down   kernel.Matrix // [r·len(up), in]: the A of all adapters, stacked; empty without adapters
	up     []lowRank
	scale  float32 // multiplies the low-rank updates
}

// lowRank is the B of adapter i of a linear map: outputs [from, to) += scale·B·(A·x), where A is
// rows [r·i, r·(i+1)) of linear.down.
type lowRank struct {
	from, to int
	b        kernel.Matrix // [to−from, r]
}

// lowSpace is scratch for the low-rank updates of one linear map; the next call overwrites it.
type lowSpace struct {
	arena    *kernel.Arena
	columns  int       // r of all adapters, at most
	values   []float32 // [rows · columns]
	gradient []float32 // the same shape; nil without a backward pass
}

// takeLow takes scratch for so many rows, with train for a backward pass as well.
func takeLow(arena *kernel.Arena, rows, columns int, train bool) (lowSpace, error) {
	t := kernel.Taker{Arena: arena}
	s := lowSpace{arena: arena, columns: columns, values: t.Float32(rows * columns)}
	if train {
		s.gradient = t.Float32(rows * columns)
	}
	if t.Err != nil {
		return lowSpace{}, errors.Join(fmt.Errorf("cpu: low-rank updates of %d tokens: %w", rows, t.Err), arena.Free())
	}
	return s, nil
}

// of returns the scratch of rows [from, to) for l, which other rows do not overwrite.
func (s lowSpace) of(l *linear, from, to int) lowSpace {
	n := l.down.Rows
	if n == 0 {
		return lowSpace{}
	}
	s.values = s.values[from*n : to*n]
	if s.gradient != nil {
		s.gradient = s.gradient[from*n : to*n]
	}
	return s
}

func (s *lowSpace) bytes() int64 {
	if s.arena == nil {
		return 0
	}
	return s.arena.Bytes()
}

func (s *lowSpace) free() error {
	if s.arena == nil {
		return nil
	}
	return s.arena.Free()
}

// apply computes y = x·Wᵀ + bias + adapters. x is [rows, in], y [rows, out].
func (l *linear) apply(pool *kernel.Pool, space lowSpace, y, x kernel.Matrix) {
	kernel.MatMul(pool, y, x, l.weight.T(), false)
	if l.bias != nil {
		kernel.AddBias(pool, y, l.bias)
	}
	if l.down.Rows == 0 {
		return
	}
	low := l.project(pool, space, x)
	for i, u := range l.up {
		kernel.MatMul(pool, y.ColRange(u.from, u.to), l.columnsOf(low, i), u.b.T(), true)
	}
}

// project returns scale·x·Aᵀ [rows, r of all adapters] in space.values.
func (l *linear) project(pool *kernel.Pool, space lowSpace, x kernel.Matrix) kernel.Matrix {
	low := kernel.NewMatrix(space.values, x.Rows, l.down.Rows)
	kernel.MatMul(pool, low, x, l.down.T(), false)
	kernel.ScaleRows(pool, low, l.scale)
	return low
}

// columnsOf returns the columns of adapter i in a product with all stacked A.
func (l *linear) columnsOf(m kernel.Matrix, i int) kernel.Matrix {
	rank := l.down.Rows / len(l.up)
	return m.ColRange(i*rank, (i+1)*rank)
}

// backward adds the gradient of y = apply(x) with respect to the trained parts of l to grad, and
// writes the gradient with respect to x to dx. It reads x only if something of l is trained.
func (l *linear) backward(pool *kernel.Pool, space lowSpace, grad *linear, dx, dy, x kernel.Matrix) {
	l.backInput(pool, space, dx, dy)
	l.backWeights(pool, space, grad, dy, x)
}

// backInput is the half of backward that writes dx. The gradient of the low-rank states stays in space.
func (l *linear) backInput(pool *kernel.Pool, space lowSpace, dx, dy kernel.Matrix) {
	kernel.MatMul(pool, dx, dy, l.weight, false)
	if l.down.Rows == 0 {
		return
	}
	dLow := kernel.NewMatrix(space.gradient, dy.Rows, l.down.Rows)
	for i, u := range l.up {
		kernel.MatMul(pool, l.columnsOf(dLow, i), dy.ColRange(u.from, u.to), u.b, false)
	}
	kernel.ScaleRows(pool, dLow, l.scale)
	kernel.MatMul(pool, dx, dLow, l.down, true)
}

// backWeights is the half of backward that adds to grad, after backInput with the same space.
func (l *linear) backWeights(pool *kernel.Pool, space lowSpace, grad *linear, dy, x kernel.Matrix) {
	if grad.weight.Rows > 0 {
		kernel.MatMul(pool, grad.weight, dy.T(), x, true)
	}
	if grad.bias != nil {
		kernel.AddBiasBackward(pool, grad.bias, dy)
	}
	if l.down.Rows == 0 {
		return
	}
	low := l.project(pool, space, x)
	for i, u := range l.up {
		kernel.MatMul(pool, grad.up[i].b, dy.ColRange(u.from, u.to).T(), l.columnsOf(low, i), true)
	}
	kernel.MatMul(pool, grad.down, kernel.NewMatrix(space.gradient, x.Rows, l.down.Rows).T(), x, true)
}
