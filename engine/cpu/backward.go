package cpu

import (
	"context"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// backward adds the gradient of everything before the final norm to grad. work.dOut [rows, H] holds
// the gradient with respect to the last hidden states; afterwards, with respect to the embeddings.
func (b *backbone) backward(ctx context.Context, m, grad *network, p *packing) error {
	dx := b.work.dOut.RowRange(0, len(p.tokens))
	for i := len(m.layers) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i < b.recompute {
			b.activate(i, &m.layers[i], &b.work.layers[i], p)
			if b.cfg.PostNorms {
				b.applyMLP(&m.layers[i], &b.work.layers[i], b.work.dNorm.RowRange(0, dx.Rows)) // for its norm
			}
		}
		b.backwardLayer(i, &m.layers[i], &grad.layers[i], &b.work.layers[i], p, dx)
	}
	if grad.embedding.Rows > 0 {
		b.scaleEmbeddings(dx)
		scatterAdd(b.pool, grad.embedding, dx, p.tokens)
	}
	return nil
}

// backwardLayer replaces dx, the gradient with respect to the layer's output, by the gradient with
// respect to its input. It recomputes what forwardLayer did not keep.
func (b *backbone) backwardLayer(index int, l, grad *layer, a *activations, p *packing, dx kernel.Matrix) {
	c, w, rows := b.cfg, &b.work, dx.Rows
	in, mid := a.in.RowRange(0, rows), a.mid.RowRange(0, rows)
	dNormed := first(w.dNormed, rows, c.HiddenSize)

	dDown := b.backNorm(l.downNorm, b.ofPart(dx), a.down, a.downRstd, grad.downNorm)
	normed := b.normed(l.mlpNorm, mid, nil)
	if l.experts != nil {
		b.backExperts(l.experts, grad.experts, a.experts, dNormed, dDown, normed)
	} else {
		b.backMLP(l, grad, a, dNormed, dDown, normed)
	}
	b.backNormed(l.mlpNorm, dx, dNormed, mid, a.midRstd, grad.mlpNorm)

	dAttention := first(w.dNormed, rows, b.mixed(index))
	dOutput := b.backNorm(l.outputNorm, b.ofPart(dx), a.output, a.outRstd, grad.outputNorm)
	l.output.backward(b.pool, w.low, &grad.output, dAttention, dOutput, first(a.attention, rows, b.mixed(index)))
	dQKV := first(w.dQKV, rows, b.inputs(index))
	if l.conv != nil {
		b.backConvolve(l, grad, a, dQKV, dAttention, p)
	} else {
		b.backAttendTo(index, l, grad, a, dQKV, dAttention, p)
	}
	normed = b.normed(l.attentionNorm, in, nil)
	l.qkv.backward(b.pool, w.low, &grad.qkv, dNormed, dQKV, normed)
	b.backNormed(l.attentionNorm, dx, dNormed, in, a.rstd, grad.attentionNorm)
}

// backAttendTo writes the gradient with respect to q, k and v as the projections give them to dQKV.
func (b *backbone) backAttendTo(index int, l, grad *layer, a *activations, dQKV, dAttention kernel.Matrix, p *packing) {
	b.backAttend(index, dQKV, dAttention, a, p)
	if b.cfg.Rotates(index) {
		b.rotate(index, dQKV, p, true)
	}
	if b.cfg.QKNorm {
		b.backNormHeads(l, grad, a, dQKV)
	}
}

// ofPart returns the gradient with respect to what a part of a layer gives before scalePart, given dx with respect to the residual
// stream behind it. The next call overwrites the result.
func (b *backbone) ofPart(dx kernel.Matrix) kernel.Matrix {
	s := b.cfg.ResidualScale
	if s == 0 {
		return dx
	}
	d := b.work.out.RowRange(0, dx.Rows) // the head has read the last layer's output
	eachRow(b.pool, dx.Rows, func(i int) { kernel.Scale(d.Row(i), dx.Row(i), float32(s)) })
	return d
}

// backNorm returns the gradient with respect to x, which a part of a layer gives, from that with respect to the residual stream.
func (b *backbone) backNorm(weight []float32, dy, x kernel.Matrix, rstd, dWeight []float32) kernel.Matrix {
	if weight == nil {
		return dy
	}
	dx := b.work.dNorm.RowRange(0, dy.Rows)
	clearRows(b.pool, dx)
	b.norm(weight).backward(dx, dy, x.RowRange(0, dy.Rows), rstd[:dy.Rows], dWeight)
	return dx
}

// backNormed adds to dx, which is of the residual stream x, the gradient with respect to what a part of a layer has read of it.
func (b *backbone) backNormed(weight []float32, dx, dNormed, x kernel.Matrix, rstd, dWeight []float32) {
	if weight == nil {
		kernel.AddRows(b.pool, dx, dNormed)
		return
	}
	b.norm(weight).backward(dx, dNormed, x, rstd[:x.Rows], dWeight)
}

// backMLP writes the gradient with respect to the normed inputs to dNormed, given the gradient dy
// with respect to the layer's output.
func (b *backbone) backMLP(l, grad *layer, a *activations, dNormed, dy, normed kernel.Matrix) {
	w, rows, n := &b.work, dy.Rows, b.cfg.IntermediateSize
	gateUp := a.gateUp.RowRange(0, rows)
	gate, up := gateUp.ColRange(0, n), gateUp.ColRange(n, 2*n)
	hidden, dHidden := w.hidden.RowRange(0, rows), w.dHidden.RowRange(0, rows)
	b.gate().Forward(b.pool, hidden, gate, up)
	l.down.backward(b.pool, w.low, &grad.down, dHidden, dy, hidden)
	b.gate().Backward(b.pool, gate, up, dHidden, gate, up)
	l.gateUp.backward(b.pool, w.low, &grad.gateUp, dNormed, gateUp, normed)
}
