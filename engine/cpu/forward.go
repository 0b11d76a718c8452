package cpu

import (
	"context"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// forward computes the hidden states [rows, H] after the last layer, before the final norm. With train, the activations of every layer
// are kept for backward.
func (e *Engine) forward(ctx context.Context, m *model, p *packing, train bool) (kernel.Matrix, error) {
	w := &e.work
	rows := len(p.tokens)
	if err := w.reserve(e, rows, train); err != nil {
		return kernel.Matrix{}, err
	}
	x := w.layers[0].in.RowRange(0, rows)
	e.gather(x, m.embedding, p.tokens)
	for i := range m.layers {
		if err := ctx.Err(); err != nil {
			return kernel.Matrix{}, err
		}
		a, out := &w.layers[0], w.out
		if train {
			a = &w.layers[i]
			if i+1 < len(m.layers) {
				out = w.layers[i+1].in
			}
		}
		e.forwardLayer(i, &m.layers[i], a, p, out.RowRange(0, rows))
		if train && e.cfg.Sparse(i) {
			e.balance.observe(e.pool, i, a.experts.routing, p)
		}
		if !train && i+1 < len(m.layers) {
			w.layers[0].in, w.out = w.out, w.layers[0].in
		}
		x = out.RowRange(0, rows)
	}
	return x, nil
}

// forwardLayer computes out = mid + MLP(norm(mid)) with mid = in + attention(norm(in)).
func (e *Engine) forwardLayer(index int, l *layer, a *activations, p *packing, out kernel.Matrix) {
	e.activate(index, l, a, p)
	e.copyRows(out, a.mid.RowRange(0, out.Rows))
	e.applyMLP(l, a, out)
}

// activate computes the activations of a layer from its input.
func (e *Engine) activate(index int, l *layer, a *activations, p *packing) {
	c, rows, eps := e.cfg, len(p.tokens), float32(e.cfg.RMSNormEps)
	in, mid, qkv := a.in.RowRange(0, rows), a.mid.RowRange(0, rows), a.qkv.RowRange(0, rows)
	normed := e.work.normed.RowRange(0, rows)
	kernel.RMSNorm(e.pool, normed, in, l.attentionNorm, eps, a.rstd[:rows])
	e.apply(&l.qkv, qkv, normed, false)
	if c.QKNorm {
		e.normHeads(l, a, qkv)
	}
	e.rotate(qkv, p, false)
	e.attend(index, a, qkv, p)
	e.copyRows(mid, in)
	e.apply(&l.output, mid, a.attention.RowRange(0, rows), true)
	kernel.RMSNorm(e.pool, normed, mid, l.mlpNorm, eps, a.midRstd[:rows])
	e.activateMLP(l, a, normed)
}

// activateMLP computes what the MLP, or the experts, make of the normed inputs before the activation function.
func (e *Engine) activateMLP(l *layer, a *activations, normed kernel.Matrix) {
	if l.experts != nil {
		e.activateExperts(l.experts, a.experts, normed)
		return
	}
	e.apply(&l.gateUp, a.gateUp.RowRange(0, normed.Rows), normed, false)
}

// applyMLP adds the results of the MLP or the experts to out [rows, H].
func (e *Engine) applyMLP(l *layer, a *activations, out kernel.Matrix) {
	if l.experts != nil {
		e.applyExperts(l.experts, a.experts, out)
		return
	}
	gateUp, hidden, n := a.gateUp.RowRange(0, out.Rows), e.work.hidden.RowRange(0, out.Rows), e.cfg.IntermediateSize
	kernel.SwiGLU(e.pool, hidden, gateUp.ColRange(0, n), gateUp.ColRange(n, 2*n))
	e.apply(&l.down, out, hidden, true)
}
