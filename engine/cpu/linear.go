package cpu

import "github.com/trinity-go/trinity/engine/cpu/kernel"

// apply computes y = x·Wᵀ + bias + adapters, or adds that to y. x [rows, in], y [rows, out].
func (e *Engine) apply(l *linear, y, x kernel.Matrix, accumulate bool) {
	kernel.MatMul(e.pool, y, x, l.weight.T(), accumulate)
	if l.bias != nil {
		kernel.AddBias(e.pool, y, l.bias)
	}
	if l.down.Rows == 0 {
		return
	}
	low := e.lowRank(l, x)
	for i, u := range l.up {
		kernel.MatMul(e.pool, y.ColRange(u.from, u.to), e.adapterCols(low, i), u.b.T(), true)
	}
}

// lowRank is scale·x·Aᵀ [rows, r of all adapters], in scratch that the next call overwrites.
func (e *Engine) lowRank(l *linear, x kernel.Matrix) kernel.Matrix {
	low := kernel.NewMatrix(e.work.low, x.Rows, l.down.Rows)
	kernel.MatMul(e.pool, low, x, l.down.T(), false)
	e.scaleRows(low, e.adapters.scale)
	return low
}

func (e *Engine) adapterCols(m kernel.Matrix, i int) kernel.Matrix {
	return m.ColRange(i*e.adapters.Rank, (i+1)*e.adapters.Rank)
}

// backApply adds the gradient of y = apply(x) by the trained parts of l to grad, and writes the gradient by x to dx. x is only read where
// something of l is trained.
func (e *Engine) backApply(l, grad *linear, dx, dy, x kernel.Matrix) {
	kernel.MatMul(e.pool, dx, dy, l.weight, false)
	if grad.weight.Rows > 0 {
		kernel.MatMul(e.pool, grad.weight, dy.T(), x, true)
	}
	if grad.bias != nil {
		kernel.AddBiasBackward(e.pool, grad.bias, dy)
	}
	if l.down.Rows == 0 {
		return
	}
	low := e.lowRank(l, x)
	dLow := kernel.NewMatrix(e.work.dLow, x.Rows, l.down.Rows)
	for i, u := range l.up {
		part := dy.ColRange(u.from, u.to)
		kernel.MatMul(e.pool, grad.up[i].b, part.T(), e.adapterCols(low, i), true)
		kernel.MatMul(e.pool, e.adapterCols(dLow, i), part, u.b, false)
	}
	e.scaleRows(dLow, e.adapters.scale)
	kernel.MatMul(e.pool, grad.down, dLow.T(), x, true)
	kernel.MatMul(e.pool, dx, dLow, l.down, true)
}
