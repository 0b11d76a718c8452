package tape

// Backward computes the derivative of loss, a single number, by every stream that it depends on.
// Grad returns the results. Call it once per Reset.
//
// If d(loss)/dy is exactly 0, nothing propagates to the operands of y, whatever dy/dx is. So a
// number that a mask removed cannot turn the gradient into NaN by an infinite slope.
func (t *Tape) Backward(loss Stream) {
	if loss.tape != t || loss.node().shape != single {
		panic("tape: Backward needs a single number of this tape")
	}
	for i := range t.nodes {
		if n := &t.nodes[i]; n.varies {
			n.grad = t.memory.take(len(n.value))
		}
	}
	if !loss.node().varies {
		return
	}
	loss.Grad()[0] = 1
	for i := loss.id; i >= 0; i-- {
		if n := &t.nodes[i]; n.varies && n.kind != leaf {
			t.propagate(n)
		}
	}
}

// propagate adds what node n contributes to the gradients of its operands.
func (t *Tape) propagate(n *node) {
	a := t.nodes[n.a].grad
	switch n.kind {
	case elementwise:
		accumulate(a, n.grad, n.da)
		if n.b >= 0 {
			accumulate(t.nodes[n.b].grad, n.grad, n.db)
		}
	case reduction:
		for s, g := range n.grad {
			t.weigh(a, n.da, g, t.bounds[s], t.bounds[s+1])
		}
	case dot:
		t.weigh(a, n.da, n.grad[0], 0, len(a))
	case spread:
		for s := range a {
			for _, g := range n.grad[t.bounds[s]:t.bounds[s+1]] {
				a[s] += g
			}
		}
	case gather:
		for k, g := range n.grad {
			a[n.index[k]] += g
		}
	}
}

// accumulate adds g·d to x. It does nothing if x is nil, because nobody needs that gradient.
func accumulate(x, g, d []float64) {
	if x == nil {
		return
	}
	for i, gi := range g {
		if gi != 0 {
			x[i] += gi * d[i]
		}
	}
}

// weigh adds g·weights to x at the indices from … to−1.
func (t *Tape) weigh(x, weights []float64, g float64, from, to int) {
	for i := from; i < to; i++ {
		x[i] += g * weights[i]
	}
}
