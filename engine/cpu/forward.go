package cpu

import (
	"context"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// forward returns the hidden states [rows, H] after the last layer, before the final norm. With
// train, it keeps the activations of every layer for backward.
func (b *backbone) forward(ctx context.Context, m *network, p *packing, train bool) (kernel.Matrix, error) {
	w := &b.work
	rows := len(p.tokens)
	if err := b.reserve(rows, train); err != nil {
		return kernel.Matrix{}, err
	}
	x := w.layers[0].in.RowRange(0, rows)
	gather(b.pool, x, m.embedding, p.tokens)
	b.scaleEmbeddings(x)
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
		b.forwardLayer(i, &m.layers[i], a, p, out.RowRange(0, rows))
		if train && b.cfg.Sparse(i) {
			b.balance.observe(b.pool, i, a.experts.routing, p)
		}
		if !train && i+1 < len(m.layers) {
			w.layers[0].in, w.out = w.out, w.layers[0].in
		}
		x = out.RowRange(0, rows)
	}
	return x, nil
}

// scaleEmbeddings multiplies embeddings, or their gradient, by the model's factor.
func (b *backbone) scaleEmbeddings(x kernel.Matrix) {
	if s := b.cfg.EmbeddingScale; s != 0 {
		scaleRows(b.pool, x, float32(s))
	}
}

// forwardLayer computes out = mid + MLP(norm(mid)) with mid = in + attention(norm(in)).
func (b *backbone) forwardLayer(index int, l *layer, a *activations, p *packing, out kernel.Matrix) {
	b.activate(index, l, a, p)
	b.applyMLP(l, a, out)
	kernel.AddRows(b.pool, out, a.mid.RowRange(0, out.Rows))
}

// activate computes the activations of a layer from its input.
func (b *backbone) activate(index int, l *layer, a *activations, p *packing) {
	c, rows, eps := b.cfg, len(p.tokens), float32(b.cfg.RMSNormEps)
	in, mid, qkv := a.in.RowRange(0, rows), a.mid.RowRange(0, rows), a.qkv.RowRange(0, rows)
	normed := b.work.normed.RowRange(0, rows)
	kernel.RMSNorm(b.pool, normed, in, l.attentionNorm, eps, a.rstd[:rows])
	l.qkv.apply(b.pool, b.work.low, qkv, normed)
	if c.QKNorm {
		b.normHeads(l, a, qkv)
	}
	b.rotate(qkv, p, false)
	b.attend(index, a, qkv, p)
	l.output.apply(b.pool, b.work.low, mid, a.attention.RowRange(0, rows))
	kernel.AddRows(b.pool, mid, in)
	kernel.RMSNorm(b.pool, normed, mid, l.mlpNorm, eps, a.midRstd[:rows])
	b.activateMLP(l, a, normed)
}

// activateMLP computes the inputs of the activation function in the MLP, or in the experts, from
// the normed inputs [rows, H].
func (b *backbone) activateMLP(l *layer, a *activations, normed kernel.Matrix) {
	if l.experts != nil {
		b.activateExperts(l.experts, a.experts, normed)
		return
	}
	l.gateUp.apply(b.pool, b.work.low, a.gateUp.RowRange(0, normed.Rows), normed)
}

// applyMLP writes the results of the MLP or the experts to out [rows, H].
func (b *backbone) applyMLP(l *layer, a *activations, out kernel.Matrix) {
	if l.experts != nil {
		b.applyExperts(l.experts, a.experts, out)
		return
	}
	gateUp, hidden, n := a.gateUp.RowRange(0, out.Rows), b.work.hidden.RowRange(0, out.Rows), b.cfg.IntermediateSize
	kernel.SiLU.Forward(b.pool, hidden, gateUp.ColRange(0, n), gateUp.ColRange(n, 2*n))
	l.down.apply(b.pool, b.work.low, out, hidden)
}
