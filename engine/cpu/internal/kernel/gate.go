package kernel

// Gate is the activation of a gated MLP (Shazeer 2020).
type Gate int

const (
	SiLU Gate = iota // g/(1+e^-g)
	GELU             // the tanh approximation of g·Φ(g)
)

// gating computes y = activation(gate)·up, and gatingGrad the gradients by gate and up; n is a multiple of lanes.
type (
	gating     func(y, gate, up *float32, n int)
	gatingGrad func(dgate, dup, dy, gate, up *float32, n int)
)

// of returns the kernels of a gate.
func (g Gate) of(ks *kernels) (gating, gatingGrad) {
	if g == GELU {
		return ks.geglu, ks.gegluGrad
	}
	return ks.swiglu, ks.swigluGrad
}

// Forward writes y = activation(gate)·up. y, gate, up [rows, cols]; y may be gate or up.
func (g Gate) Forward(pool *Pool, y, gate, up Matrix) {
	y.checkShape("Gate.Forward: y", gate.Rows, gate.Cols)
	gate.checkShape("Gate.Forward: gate", gate.Rows, gate.Cols)
	up.checkShape("Gate.Forward: up", gate.Rows, gate.Cols)
	forward, _ := g.of(current())
	pool.runRows(gate.Rows, 4*gate.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			forward.row(y.Row(i), gate.Row(i), up.Row(i))
		}
	})
}

func (g gating) row(y, gate, up []float32) {
	n := len(gate) &^ (lanes - 1)
	if n > 0 {
		g(&y[0], &gate[0], &up[0], n)
	}
	if n < len(gate) {
		t := tailPool.Get().(*tail)
		g(&t[0][0], t.pad(1, gate[n:], 0), t.pad(2, up[n:], 0), lanes)
		copy(y[n:], t[0][:len(gate)-n])
		tailPool.Put(t)
	}
}

// Backward writes dgate = dy·up·activation'(gate) and dup = dy·activation(gate), all [rows, cols]. dgate
// may be gate and dup may be up.
func (g Gate) Backward(pool *Pool, dgate, dup, dy, gate, up Matrix) {
	dgate.checkShape("Gate.Backward: dgate", gate.Rows, gate.Cols)
	dup.checkShape("Gate.Backward: dup", gate.Rows, gate.Cols)
	dy.checkShape("Gate.Backward: dy", gate.Rows, gate.Cols)
	gate.checkShape("Gate.Backward: gate", gate.Rows, gate.Cols)
	up.checkShape("Gate.Backward: up", gate.Rows, gate.Cols)
	_, backward := g.of(current())
	pool.runRows(gate.Rows, 6*gate.Cols, func(from, to int) {
		for i := from; i < to; i++ {
			backward.row(dgate.Row(i), dup.Row(i), dy.Row(i), gate.Row(i), up.Row(i))
		}
	})
}

func (g gatingGrad) row(dgate, dup, dy, gate, up []float32) {
	n := len(gate) &^ (lanes - 1)
	if n > 0 {
		g(&dgate[0], &dup[0], &dy[0], &gate[0], &up[0], n)
	}
	if n < len(gate) {
		t := tailPool.Get().(*tail)
		g(&t[0][0], &t[1][0], t.pad(2, dy[n:], 0), t.pad(3, gate[n:], 0), t.pad(4, up[n:], 0), lanes)
		copy(dgate[n:], t[0][:len(gate)-n])
		copy(dup[n:], t[1][:len(gate)-n])
		tailPool.Put(t)
	}
}
