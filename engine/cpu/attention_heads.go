package cpu

import "github.com/trinity-go/trinity/engine/cpu/kernel"

// rotate applies RoPE to the q and k columns of qkv in place, or turns their gradient back.
func (e *Engine) rotate(qkv kernel.Matrix, p *packing, back bool) {
	c := e.cfg
	rotated := qkv.ColRange(0, (c.NumHeads+c.NumKVHeads)*c.HeadDim)
	if back {
		kernel.RoPEBackward(e.pool, rotated, c.HeadDim, e.rope.cos, e.rope.sin, p.positions)
		return
	}
	kernel.RoPE(e.pool, rotated, c.HeadDim, e.rope.cos, e.rope.sin, p.positions)
}

// eachHead calls do for every head of q, then of k: its number, its columns and its norm's weight.
func (e *Engine) eachHead(l *layer, do func(head, from, to int, isK bool)) {
	c := e.cfg
	for head := range c.NumHeads + c.NumKVHeads {
		do(head, head*c.HeadDim, (head+1)*c.HeadDim, head >= c.NumHeads)
	}
}

func (l *layer) headNorm(isK bool) []float32 {
	if isK {
		return l.kNorm
	}
	return l.qNorm
}

// normHeads applies the RMSNorm of each head of q and k, keeping the input in a.raw.
func (e *Engine) normHeads(l *layer, a *activations, qkv kernel.Matrix) {
	rows := qkv.Rows
	raw := a.raw.RowRange(0, rows)
	e.copyRows(raw, qkv.ColRange(0, raw.Cols))
	e.eachHead(l, func(head, from, to int, isK bool) {
		kernel.RMSNorm(e.pool, qkv.ColRange(from, to), raw.ColRange(from, to), l.headNorm(isK), float32(e.cfg.RMSNormEps), a.headRstd[head*rows:(head+1)*rows])
	})
}

// backNormHeads turns the gradient by the normed heads, in dQKV, into that by their inputs.
func (e *Engine) backNormHeads(l, grad *layer, a *activations, dQKV kernel.Matrix) {
	rows := dQKV.Rows
	d := first(e.work.dNormed, rows, e.cfg.HeadDim) // free at this point
	e.eachHead(l, func(head, from, to int, isK bool) {
		e.clearRows(d)
		columns := dQKV.ColRange(from, to)
		kernel.RMSNormBackward(e.pool, d, columns, a.raw.RowRange(0, rows).ColRange(from, to), l.headNorm(isK), a.headRstd[head*rows:(head+1)*rows], grad.headNorm(isK))
		e.copyRows(columns, d)
	})
}
