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
	c, w, rows, eps := b.cfg, &b.work, dx.Rows, float32(b.cfg.RMSNormEps)
	in, mid := a.in.RowRange(0, rows), a.mid.RowRange(0, rows)
	normed, dNormed := w.normed.RowRange(0, rows), first(w.dNormed, rows, c.HiddenSize)

	kernel.RMSNorm(b.pool, normed, mid, l.mlpNorm, eps, nil)
	if l.experts != nil {
		b.backExperts(l.experts, grad.experts, a.experts, dNormed, dx, normed)
	} else {
		b.backMLP(l, grad, a, dNormed, dx, normed)
	}
	kernel.RMSNormBackward(b.pool, dx, dNormed, mid, l.mlpNorm, a.midRstd[:rows], grad.mlpNorm)

	q := c.NumHeads * c.HeadDim
	dAttention := first(w.dNormed, rows, q)
	l.output.backward(b.pool, w.low, &grad.output, dAttention, dx, a.attention.RowRange(0, rows))
	dQKV := w.dQKV.RowRange(0, rows)
	b.backAttend(index, dQKV, dAttention, a, p)
	b.rotate(dQKV, p, true)
	if c.QKNorm {
		b.backNormHeads(l, grad, a, dQKV)
	}
	kernel.RMSNorm(b.pool, normed, in, l.attentionNorm, eps, nil)
	l.qkv.backward(b.pool, w.low, &grad.qkv, dNormed, dQKV, normed)
	kernel.RMSNormBackward(b.pool, dx, dNormed, in, l.attentionNorm, a.rstd[:rows], grad.attentionNorm)
}

// backMLP writes the gradient with respect to the normed inputs to dNormed, given the gradient dy
// with respect to the layer's output.
func (b *backbone) backMLP(l, grad *layer, a *activations, dNormed, dy, normed kernel.Matrix) {
	w, rows, n := &b.work, dy.Rows, b.cfg.IntermediateSize
	gateUp := a.gateUp.RowRange(0, rows)
	gate, up := gateUp.ColRange(0, n), gateUp.ColRange(n, 2*n)
	hidden, dHidden := w.hidden.RowRange(0, rows), w.dHidden.RowRange(0, rows)
	kernel.SiLU.Forward(b.pool, hidden, gate, up)
	l.down.backward(b.pool, w.low, &grad.down, dHidden, dy, hidden)
	kernel.SiLU.Backward(b.pool, gate, up, dHidden, gate, up)
	l.gateUp.backward(b.pool, w.low, &grad.gateUp, dNormed, gateUp, normed)
}
