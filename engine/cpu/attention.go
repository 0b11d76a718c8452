package cpu

import (
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// attentionOf returns the shape of a layer's attention.
func attentionOf(c *model.Config, layer int) kernel.Attention {
	return kernel.Attention{
		Heads: c.NumHeads, KVHeads: c.NumKVHeads, HeadDim: c.HeadDim, Scale: float32(c.AttentionScale), Window: c.Window(layer),
	}
}

// split views the q, k and v columns of a packed matrix.
func (b *backbone) split(qkv kernel.Matrix) (q, k, v kernel.Matrix) {
	nq, nkv := b.cfg.NumHeads*b.cfg.HeadDim, b.cfg.NumKVHeads*b.cfg.HeadDim
	return qkv.ColRange(0, nq), qkv.ColRange(nq, nq+nkv), qkv.ColRange(nq+nkv, nq+2*nkv)
}

// attend computes causal attention over every segment and its prefix.
func (b *backbone) attend(layer int, a *activations, qkv kernel.Matrix, p *packing) {
	rows := qkv.Rows
	q, k, v := b.split(qkv)
	attentionOf(b.cfg, layer).Forward(b.pool, first(a.attention, rows, b.mixed(layer)), a.lse.RowRange(0, rows), q, k, v, p.segments)
}

// backAttend writes the gradient with respect to q, k and v to dQKV, given the gradient with
// respect to the attention's output.
func (b *backbone) backAttend(layer int, dQKV, dAttention kernel.Matrix, a *activations, p *packing) {
	rows := dQKV.Rows
	q, k, v := b.split(first(a.qkv, rows, b.inputs(layer)))
	dq, dk, dv := b.split(dQKV)
	out, lse := first(a.attention, rows, b.mixed(layer)), a.lse.RowRange(0, rows)
	attentionOf(b.cfg, layer).Backward(b.pool, dq, dk, dv, dAttention, out, lse, q, k, v, p.segments)
}
