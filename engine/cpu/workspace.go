package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// activations are what the backward pass of one layer needs and cannot recompute cheaply. All have one row per packed token.
type activations struct {
	in        kernel.Matrix // [rows, H] input of the layer
	raw       kernel.Matrix // [rows, q+k] before q/k norm; empty unless the model has it
	qkv       kernel.Matrix // [rows, q+k+v] after RoPE
	attention kernel.Matrix // [rows, q]
	lse       kernel.Matrix // [rows, heads] log of the softmax denominators, nats
	mid       kernel.Matrix // [rows, H] after attention
	gateUp    kernel.Matrix // [rows, 2I]; its gradient in the backward pass; unused in a layer with experts
	experts   *mixtureActivations
	rstd      []float32 // [rows] of the norm before attention
	midRstd   []float32 // [rows] of the norm before the MLP
	headRstd  []float32 // [rows · (heads + kv heads)] of the q/k norm
}

// demand is what decides the size of a workspace besides its rows.
type demand struct {
	cfg       *modelfile.Config
	low       int  // columns of the low-rank updates of one input; 0 without adapters
	train     bool // a backward pass will follow
	recompute int  // first layers of which the backward pass computes the activations again
}

// workspace is all memory of a forward and backward pass. It is planned for a number of rows and reused; a batch that needs more
// makes it grow.
type workspace struct {
	arena   *kernel.Arena
	rows    int
	train   bool
	layers  []activations // layers 0 … recompute share all but their input
	out     kernel.Matrix // [rows, H] of the last layer
	normed  kernel.Matrix // [rows, H]
	hidden  kernel.Matrix // [rows, I]
	experts mixtureSpace
	low     []float32 // [rows · r of all adapters on one input]
	// of the backward pass; nil while only scoring, and those that are computed again while training
	dOut    kernel.Matrix // [rows, H]
	dNormed kernel.Matrix // [rows, max(H, q)]
	dQKV    kernel.Matrix // [rows, q+k+v]
	dHidden kernel.Matrix // [rows, I]
	dLow    []float32
}

// demand is what this engine's workspace is for.
func (e *Engine) demand(train bool) demand {
	d := demand{cfg: e.cfg, train: train, recompute: e.opts.Recompute}
	if e.adapters != nil {
		d.low = 3 * e.adapters.Rank
	}
	return d
}

// reserve makes room for so many packed rows, with the activations of every layer kept if train.
func (w *workspace) reserve(e *Engine, rows int, train bool) error {
	if rows <= w.rows && (w.train || !train) {
		return nil
	}
	rows, train = max(rows, w.rows), train || w.train
	if err := w.free(); err != nil {
		return err
	}
	*w = workspace{}
	next, err := takeWorkspace(e.newArena(), e.demand(train), rows)
	if err != nil {
		return err
	}
	*w = *next
	return nil
}

// takeWorkspace takes the memory of so many packed rows from arena, which may be a tally.
func takeWorkspace(arena *kernel.Arena, d demand, rows int) (*workspace, error) {
	w := &workspace{arena: arena, rows: rows, train: d.train}
	c := d.cfg
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	t := kernel.Taker{Arena: arena}
	matrix := func(cols int) kernel.Matrix { return t.Matrix(rows, cols) }
	layers := 1
	if d.train {
		layers = c.NumLayers
	}
	for i := range layers {
		if 0 < i && i <= d.recompute {
			shared := w.layers[0]
			shared.in = matrix(c.HiddenSize)
			w.layers = append(w.layers, shared)
			continue
		}
		a := activations{
			in: matrix(c.HiddenSize), qkv: matrix(q + 2*kv), attention: matrix(q), lse: matrix(c.NumHeads),
			mid: matrix(c.HiddenSize), rstd: t.Float32(rows), midRstd: t.Float32(rows),
		}
		if c.QKNorm {
			a.raw, a.headRstd = matrix(q+kv), t.Float32(rows*(c.NumHeads+c.NumKVHeads))
		}
		if i == 0 || !c.Sparse(i) { // all layers use those of layer 0 while only scoring, and those that are computed again while training
			a.gateUp = matrix(2 * c.DenseSize())
		}
		if c.Sparse(i) || i == 0 && c.Mixture != nil {
			a.experts = takeMixture(c, rows, &t)
		}
		w.layers = append(w.layers, a)
	}
	w.out, w.normed, w.hidden = matrix(c.HiddenSize), matrix(c.HiddenSize), matrix(c.DenseSize())
	if c.Mixture != nil {
		w.experts = takeMixtureSpace(c, rows, d.train, &t)
	}
	w.low = t.Float32(rows * d.low)
	if d.train {
		w.dOut, w.dNormed = matrix(c.HiddenSize), matrix(max(c.HiddenSize, q))
		w.dQKV, w.dHidden = matrix(q+2*kv), matrix(c.DenseSize())
		w.dLow = t.Float32(rows * d.low)
	}
	if t.Err != nil {
		arena.Free()
		return nil, fmt.Errorf("cpu: activations of %d tokens: %w", rows, t.Err)
	}
	return w, nil
}

func (w *workspace) free() error {
	if w.arena == nil {
		return nil
	}
	return w.arena.Free()
}

// first is the first rows and columns of m.
func first(m kernel.Matrix, rows, cols int) kernel.Matrix {
	return m.RowRange(0, rows).ColRange(0, cols)
}
