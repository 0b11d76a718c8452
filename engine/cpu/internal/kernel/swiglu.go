package kernel

// SwiGLU writes y = silu(gate)·up, silu(g) = g/(1+e^-g) (Shazeer 2020). y, gate, up [rows, cols]; y
// may be gate or up.
func SwiGLU(pool *Pool, y, gate, up Matrix) {
	y.checkShape("SwiGLU: y", gate.Rows, gate.Cols)
	gate.checkShape("SwiGLU: gate", gate.Rows, gate.Cols)
	up.checkShape("SwiGLU: up", gate.Rows, gate.Cols)
	ks := current()
	pool.runRows(gate.Rows, 4*gate.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			ks.swigluRow(y.Row(i), gate.Row(i), up.Row(i))
		}
	})
}

func (ks *kernels) swigluRow(y, gate, up []float32) {
	n := len(gate) &^ (lanes - 1)
	if n > 0 {
		ks.swiglu(&y[0], &gate[0], &up[0], n)
	}
	if n < len(gate) {
		t := tailPool.Get().(*tail)
		ks.swiglu(&t[0][0], t.pad(1, gate[n:], 0), t.pad(2, up[n:], 0), lanes)
		copy(y[n:], t[0][:len(gate)-n])
		tailPool.Put(t)
	}
}

// SwiGLUBackward writes dgate = dy·up·silu'(gate) and dup = dy·silu(gate), all [rows, cols]. dgate
// may be gate and dup may be up.
func SwiGLUBackward(pool *Pool, dgate, dup, dy, gate, up Matrix) {
	dgate.checkShape("SwiGLUBackward: dgate", gate.Rows, gate.Cols)
	dup.checkShape("SwiGLUBackward: dup", gate.Rows, gate.Cols)
	dy.checkShape("SwiGLUBackward: dy", gate.Rows, gate.Cols)
	gate.checkShape("SwiGLUBackward: gate", gate.Rows, gate.Cols)
	up.checkShape("SwiGLUBackward: up", gate.Rows, gate.Cols)
	ks := current()
	pool.runRows(gate.Rows, 6*gate.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			ks.swigluGradRow(dgate.Row(i), dup.Row(i), dy.Row(i), gate.Row(i), up.Row(i))
		}
	})
}

func (ks *kernels) swigluGradRow(dgate, dup, dy, gate, up []float32) {
	n := len(gate) &^ (lanes - 1)
	if n > 0 {
		ks.swigluGrad(&dgate[0], &dup[0], &dy[0], &gate[0], &up[0], n)
	}
	if n < len(gate) {
		t := tailPool.Get().(*tail)
		ks.swigluGrad(&t[0][0], &t[1][0], t.pad(2, dy[n:], 0), t.pad(3, gate[n:], 0), t.pad(4, up[n:], 0), lanes)
		copy(dgate[n:], t[0][:len(gate)-n])
		copy(dup[n:], t[1][:len(gate)-n])
		tailPool.Put(t)
	}
}
