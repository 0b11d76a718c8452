package cpu

import "github.com/trinity-go/trinity/engine/cpu/internal/kernel"

// rotate applies a layer's RoPE to the q and k columns of qkv in place, and the factors on queries. With
// back it applies the inverse rotation and the same factors, which is the backward pass.
func (b *backbone) rotate(layer int, qkv kernel.Matrix, p *packing, back bool) {
	c, tables := b.cfg, &b.rope
	if b.local.cfg != nil && c.Window(layer) > 0 {
		tables = &b.local
	}
	kernel.ScaleByPosition(b.pool, qkv.ColRange(0, c.NumHeads*c.HeadDim), tables.query, p.positions)
	rotated := qkv.ColRange(0, (c.NumHeads+c.NumKVHeads)*c.HeadDim)
	if back {
		kernel.RoPEBackward(b.pool, rotated, c.HeadDim, tables.cos, tables.sin, p.positions)
		return
	}
	kernel.RoPE(b.pool, rotated, c.HeadDim, tables.cos, tables.sin, p.positions)
}

// eachHead calls do for what one norm takes of q, then of k, with its number and its columns [from, to): a head, or all.
func (b *backbone) eachHead(do func(head, from, to int, isK bool)) {
	c := b.cfg
	if q := c.NumHeads * c.HeadDim; c.WideQKNorm {
		do(0, 0, q, false)
		do(1, q, q+c.NumKVHeads*c.HeadDim, true)
		return
	}
	for head := range c.NumHeads + c.NumKVHeads {
		do(head, head*c.HeadDim, (head+1)*c.HeadDim, head >= c.NumHeads)
	}
}

// headNorm returns the norm's weight of a head of q or k.
func (l *layer) headNorm(isK bool) []float32 {
	if isK {
		return l.kNorm
	}
	return l.qNorm
}

// normHeads applies the RMSNorm of each head of q and k, and keeps its input in a.raw.
func (b *backbone) normHeads(l *layer, a *activations, qkv kernel.Matrix) {
	rows := qkv.Rows
	raw := a.raw.RowRange(0, rows)
	copyRows(b.pool, raw, qkv.ColRange(0, raw.Cols))
	b.eachHead(func(head, from, to int, isK bool) {
		rstd := a.headRstd[head*rows : (head+1)*rows]
		b.norm(l.headNorm(isK)).apply(qkv.ColRange(from, to), raw.ColRange(from, to), rstd)
	})
}

// backNormHeads replaces the gradient with respect to the normed heads, in dQKV, by the gradient
// with respect to their inputs.
func (b *backbone) backNormHeads(l, grad *layer, a *activations, dQKV kernel.Matrix) {
	rows := dQKV.Rows
	b.eachHead(func(head, from, to int, isK bool) {
		d := first(b.work.dNormed, rows, to-from) // dNormed is free at this point
		columns, raw := dQKV.ColRange(from, to), a.raw.RowRange(0, rows).ColRange(from, to)
		rstd := a.headRstd[head*rows : (head+1)*rows]
		b.norm(l.headNorm(isK)).replace(columns, d, raw, rstd, grad.headNorm(isK))
	})
}
