package cpu

import (
	"math"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// attentionOf is the shape of a layer's attention.
func (e *Engine) attentionOf(layer int) kernel.Attention {
	c := e.cfg
	return kernel.Attention{
		Heads: c.NumHeads, KVHeads: c.NumKVHeads, HeadDim: c.HeadDim, Scale: float32(1 / math.Sqrt(float64(c.HeadDim))), Window: c.Window(layer),
	}
}

// split views the q, k and v columns of a packed matrix.
func (e *Engine) split(qkv kernel.Matrix) (q, k, v kernel.Matrix) {
	nq, nkv := e.cfg.NumHeads*e.cfg.HeadDim, e.cfg.NumKVHeads*e.cfg.HeadDim
	return qkv.ColRange(0, nq), qkv.ColRange(nq, nq+nkv), qkv.ColRange(nq+nkv, nq+2*nkv)
}

// attend computes causal attention over every segment and its prefix.
func (e *Engine) attend(layer int, a *activations, qkv kernel.Matrix, p *packing) {
	rows := qkv.Rows
	q, k, v := e.split(qkv)
	e.attentionOf(layer).Forward(e.pool, a.attention.RowRange(0, rows), a.lse.RowRange(0, rows), q, k, v, p.segments)
}

// backAttend writes the gradient by q, k and v, given that by the attention's output.
func (e *Engine) backAttend(layer int, dQKV, dAttention kernel.Matrix, a *activations, p *packing) {
	rows := dQKV.Rows
	q, k, v := e.split(a.qkv.RowRange(0, rows))
	dq, dk, dv := e.split(dQKV)
	e.attentionOf(layer).Backward(e.pool, dq, dk, dv, dAttention, a.attention.RowRange(0, rows), a.lse.RowRange(0, rows), q, k, v, p.segments)
}
