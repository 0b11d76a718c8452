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
		kernel.ScaleRows(b.pool, x, float32(s))
	}
}

// scalePart multiplies what a part of a layer adds to the residual stream by the model's factor.
func (b *backbone) scalePart(x kernel.Matrix) {
	if s := b.cfg.ResidualScale; s != 0 {
		kernel.ScaleRows(b.pool, x, float32(s))
	}
}

// forwardLayer computes out = mid + MLP(norm(mid)) with mid = in + attention(norm(in)). The model says which norms it has.
func (b *backbone) forwardLayer(index int, l *layer, a *activations, p *packing, out kernel.Matrix) {
	b.activate(index, l, a, p)
	b.applyMLP(l, a, out)
	b.scalePart(out)
	kernel.AddRows(b.pool, out, a.mid.RowRange(0, out.Rows))
}

// activate computes the activations of a layer from its input.
func (b *backbone) activate(index int, l *layer, a *activations, p *packing) {
	rows := len(p.tokens)
	in, mid, qkv := a.in.RowRange(0, rows), a.mid.RowRange(0, rows), first(a.qkv, rows, b.inputs(index))
	l.qkv.apply(b.pool, b.work.low, qkv, b.normed(l.attentionNorm, in, a.rstd))
	if l.conv != nil {
		b.convolve(l, a, qkv, p)
	} else {
		b.attendTo(index, l, a, qkv, p)
	}
	output := b.beforeNorm(mid, a.output)
	l.output.apply(b.pool, b.work.low, output, first(a.attention, rows, b.mixed(index)))
	if l.outputNorm != nil {
		b.norm(l.outputNorm).apply(mid, output, a.outRstd[:rows])
	}
	b.scalePart(mid)
	kernel.AddRows(b.pool, mid, in)
	b.activateMLP(l, a, b.normed(l.mlpNorm, mid, a.midRstd), p.replayed(b.cfg, index))
}

// attendTo computes a layer's attention from q, k and v as the projections give them.
func (b *backbone) attendTo(index int, l *layer, a *activations, qkv kernel.Matrix, p *packing) {
	if b.cfg.QKNorm {
		b.normHeads(l, a, qkv)
	}
	if b.cfg.Rotates(index) {
		b.rotate(index, qkv, p, false)
	}
	b.attend(index, a, qkv, p)
}

// normed returns what a part of a layer reads of the residual stream x, and fills rstd, which may be nil.
func (b *backbone) normed(weight []float32, x kernel.Matrix, rstd []float32) kernel.Matrix {
	if weight == nil {
		return x
	}
	if rstd != nil {
		rstd = rstd[:x.Rows]
	}
	y := b.work.normed.RowRange(0, x.Rows)
	b.norm(weight).apply(y, x, rstd)
	return y
}

// beforeNorm returns where a part of a layer writes: to what its norm reads, if there is one, or to out.
func (b *backbone) beforeNorm(out, read kernel.Matrix) kernel.Matrix {
	if b.cfg.PostNorms {
		return read.RowRange(0, out.Rows)
	}
	return out
}

// activateMLP computes the inputs of the activation function in the MLP, or in the experts, from
// the normed inputs [rows, H]. given returns the experts of a row; it may be nil.
func (b *backbone) activateMLP(l *layer, a *activations, normed kernel.Matrix, given func(row int) []int32) {
	if l.experts != nil {
		b.activateExperts(l.experts, a.experts, normed, given)
		return
	}
	l.gateUp.apply(b.pool, b.work.low, a.gateUp.RowRange(0, normed.Rows), normed)
}

// applyMLP writes the results of the MLP or the experts to out [rows, H].
func (b *backbone) applyMLP(l *layer, a *activations, out kernel.Matrix) {
	down := b.beforeNorm(out, a.down)
	if l.experts != nil {
		b.applyExperts(l.experts, a.experts, down)
	} else {
		gateUp, hidden, n := a.gateUp.RowRange(0, out.Rows), b.work.hidden.RowRange(0, out.Rows), b.cfg.IntermediateSize
		b.gate().Forward(b.pool, hidden, gateUp.ColRange(0, n), gateUp.ColRange(n, 2*n))
		l.down.apply(b.pool, b.work.low, down, hidden)
	}
	if l.downNorm != nil {
		b.norm(l.downNorm).apply(out, down, a.downRstd[:out.Rows])
	}
}

// gate returns the activation of the MLP.
func (b *backbone) gate() kernel.Gate {
	if b.cfg.GELU {
		return kernel.GELU
	}
	return kernel.SiLU
}
