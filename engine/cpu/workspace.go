package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// activations are what the backward pass of one layer needs and cannot recompute cheaply. All have one row per packed token.
type activations struct {
	in        kernel.Matrix // [rows, H] input of the layer
	raw       kernel.Matrix // [rows, q+k] before q/k norm; empty unless the model has it
	qkv       kernel.Matrix // [rows, q+k+v] after RoPE
	attention kernel.Matrix // [rows, q]
	lse       kernel.Matrix // [rows, heads] log of the softmax denominators, nats
	mid       kernel.Matrix // [rows, H] after attention
	gateUp    kernel.Matrix // [rows, 2I]; its gradient in the backward pass
	rstd      []float32     // [rows] of the norm before attention
	midRstd   []float32     // [rows] of the norm before the MLP
	headRstd  []float32     // [rows · (heads + kv heads)] of the q/k norm
}

// workspace is all memory of a forward and backward pass. It is planned for a number of rows and reused; a batch that needs more
// makes it grow.
type workspace struct {
	arena  *kernel.Arena
	rows   int
	layers []activations
	out    kernel.Matrix // [rows, H] of the last layer
	normed kernel.Matrix // [rows, H]
	hidden kernel.Matrix // [rows, I]
	low    []float32     // [rows · r of all adapters on one input]
	// of the backward pass; nil while only scoring
	dOut    kernel.Matrix // [rows, H]
	dNormed kernel.Matrix // [rows, max(H, q)]
	dQKV    kernel.Matrix // [rows, q+k+v]
	dHidden kernel.Matrix // [rows, I]
	dLow    []float32
}

// reserve makes room for so many packed rows, with the activations of every layer kept if train, and for the head.
func (w *workspace) reserve(e *Engine, rows int, train bool) error {
	layers := 1
	if train {
		layers = e.cfg.NumLayers
	}
	if rows <= w.rows && layers <= len(w.layers) {
		return nil
	}
	rows, layers = max(rows, w.rows), max(layers, len(w.layers))
	if err := w.free(); err != nil {
		return err
	}
	*w = workspace{arena: kernel.NewArena(), rows: rows}
	c := e.cfg
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	var err error
	vector := func(n int) []float32 {
		v, failed := w.arena.Float32(n)
		if failed != nil && err == nil {
			err = fmt.Errorf("cpu: activations of %d tokens: %w", rows, failed)
		}
		return v
	}
	matrix := func(cols int) kernel.Matrix {
		return kernel.Matrix{Data: vector(rows * cols), Rows: rows, Cols: cols, Stride: cols}
	}
	for range layers {
		a := activations{
			in: matrix(c.HiddenSize), qkv: matrix(q + 2*kv), attention: matrix(q), lse: matrix(c.NumHeads),
			mid: matrix(c.HiddenSize), gateUp: matrix(2 * c.IntermediateSize), rstd: vector(rows), midRstd: vector(rows),
		}
		if c.QKNorm {
			a.raw, a.headRstd = matrix(q+kv), vector(rows*(c.NumHeads+c.NumKVHeads))
		}
		w.layers = append(w.layers, a)
	}
	w.out, w.normed, w.hidden = matrix(c.HiddenSize), matrix(c.HiddenSize), matrix(c.IntermediateSize)
	if e.adapters != nil {
		w.low = vector(rows * 3 * e.adapters.Rank)
	}
	if train {
		w.dOut, w.dNormed = matrix(c.HiddenSize), matrix(max(c.HiddenSize, q))
		w.dQKV, w.dHidden = matrix(q+2*kv), matrix(c.IntermediateSize)
		if e.adapters != nil {
			w.dLow = vector(rows * 3 * e.adapters.Rank)
		}
	}
	if err != nil {
		w.free()
		*w = workspace{}
	}
	return err
}

func (w *workspace) free() error {
	if w.arena == nil {
		return nil
	}
	return w.arena.Free()
}

// first is the first rows of m as a matrix of so many columns.
func first(m kernel.Matrix, rows, cols int) kernel.Matrix {
	return kernel.NewMatrix(m.Data, rows, cols)
}
