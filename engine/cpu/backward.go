package cpu

import (
	"context"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// backward adds the gradient of everything before the final norm to grad. work.dOut [rows, H] is the gradient by the last hidden states,
// and becomes that by the embeddings.
func (e *Engine) backward(ctx context.Context, m, grad *model, p *packing) error {
	dx := e.work.dOut.RowRange(0, len(p.tokens))
	for i := len(m.layers) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i < e.opts.Recompute {
			e.activate(i, &m.layers[i], &e.work.layers[i], p)
		}
		e.backwardLayer(i, &m.layers[i], &grad.layers[i], &e.work.layers[i], p, dx)
	}
	if grad.embedding.Rows > 0 {
		e.scatterAdd(grad.embedding, dx, p.tokens)
	}
	return nil
}

// backwardLayer turns dx from the gradient by the layer's output into that by its input. What forwardLayer did not keep is computed again.
func (e *Engine) backwardLayer(index int, l, grad *layer, a *activations, p *packing, dx kernel.Matrix) {
	c, w, rows, eps := e.cfg, &e.work, dx.Rows, float32(e.cfg.RMSNormEps)
	in, mid := a.in.RowRange(0, rows), a.mid.RowRange(0, rows)
	normed, dNormed := w.normed.RowRange(0, rows), first(w.dNormed, rows, c.HiddenSize)

	kernel.RMSNorm(e.pool, normed, mid, l.mlpNorm, eps, nil)
	if l.experts != nil {
		e.backExperts(l.experts, grad.experts, a.experts, dNormed, dx, normed, e.balance.byRow())
	} else {
		e.backMLP(l, grad, a, dNormed, dx, normed)
	}
	kernel.RMSNormBackward(e.pool, dx, dNormed, mid, l.mlpNorm, a.midRstd[:rows], grad.mlpNorm)

	q := c.NumHeads * c.HeadDim
	dAttention := first(w.dNormed, rows, q)
	e.backApply(&l.output, &grad.output, dAttention, dx, a.attention.RowRange(0, rows))
	dQKV := w.dQKV.RowRange(0, rows)
	e.backAttend(index, dQKV, dAttention, a, p)
	e.rotate(dQKV, p, true)
	if c.QKNorm {
		e.backNormHeads(l, grad, a, dQKV)
	}
	kernel.RMSNorm(e.pool, normed, in, l.attentionNorm, eps, nil)
	e.backApply(&l.qkv, &grad.qkv, dNormed, dQKV, normed)
	kernel.RMSNormBackward(e.pool, dx, dNormed, in, l.attentionNorm, a.rstd[:rows], grad.attentionNorm)
}

// backMLP writes the gradient by the normed inputs to dNormed, given that by the layer's output.
func (e *Engine) backMLP(l, grad *layer, a *activations, dNormed, dy, normed kernel.Matrix) {
	rows, n := dy.Rows, e.cfg.IntermediateSize
	gateUp := a.gateUp.RowRange(0, rows)
	gate, up := gateUp.ColRange(0, n), gateUp.ColRange(n, 2*n)
	hidden, dHidden := e.work.hidden.RowRange(0, rows), e.work.dHidden.RowRange(0, rows)
	kernel.SwiGLU(e.pool, hidden, gate, up)
	e.backApply(&l.down, &grad.down, dHidden, dy, hidden)
	kernel.SwiGLUBackward(e.pool, gate, up, dHidden, gate, up)
	e.backApply(&l.gateUp, &grad.gateUp, dNormed, gateUp, normed)
}
