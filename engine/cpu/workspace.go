package cpu

import (
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// activations are the values of one layer that the backward pass needs and cannot recompute
// cheaply. Each has one row per packed token.
type activations struct {
	in        kernel.Matrix // [rows, H] input of the layer
	raw       kernel.Matrix // [rows, q+k] before the q/k norm; empty unless the model has one
	qkv       kernel.Matrix // [rows, q+k+v] after RoPE; in a layer with a convolution, [rows, B+C+x]
	attention kernel.Matrix // [rows, q]; in a layer with a convolution, [rows, H] what that gives
	lse       kernel.Matrix // [rows, heads] log of the softmax denominators, nats; only of attention
	output    kernel.Matrix // [rows, H] before the norm of what the attention gives; empty unless the model has one, and so is down
	mid       kernel.Matrix // [rows, H] after attention
	gateUp    kernel.Matrix // [rows, 2I]; its gradient in the backward pass; unused in a layer with experts
	experts   *mixtureActivations
	down      kernel.Matrix // [rows, H] before the norm of what the MLP gives
	rstd      []float32     // [rows] of the norm before attention
	midRstd   []float32     // [rows] of the norm before the MLP
	outRstd   []float32     // [rows] of the norm after attention
	downRstd  []float32     // [rows] of the norm after the MLP
	headRstd  []float32     // [rows · (heads + kv heads)] of the q/k norm
}

// workspace holds the activations and scratch of a forward and a backward pass. The engine plans it
// for a number of rows and reuses it; a larger batch makes it grow.
type workspace struct {
	arena   *kernel.Arena
	rows    int
	train   bool
	layers  []activations // layers 0 … recompute share all memory except their input
	out     kernel.Matrix // [rows, H] of the last layer
	normed  kernel.Matrix // [rows, H]
	hidden  kernel.Matrix // [rows, I]
	experts mixtureSpace
	low     lowSpace // has an arena of its own, so that it grows alone
	// for the backward pass; nil in a workspace that only scores
	dOut    kernel.Matrix // [rows, H]
	dNormed kernel.Matrix // [rows, max(H, q)]
	dQKV    kernel.Matrix // [rows, q+k+v], or as a convolution needs it
	dHidden kernel.Matrix // [rows, I]
	dNorm   kernel.Matrix // [rows, H] before a norm of what a part of a layer gives; empty unless the model has one
}

// takeWorkspace takes the memory for so many packed rows, with train for a backward pass as well.
func (b *backbone) takeWorkspace(rows int, train bool) (*workspace, error) {
	w := &workspace{arena: b.newArena(), rows: rows, train: train}
	c := b.cfg
	q, kv := c.NumHeads*c.HeadDim, c.NumKVHeads*c.HeadDim
	inputs, mixed := b.widest()
	t := kernel.Taker{Arena: w.arena}
	matrix := func(cols int) kernel.Matrix { return t.Matrix(rows, cols) }
	layers := 1
	if train {
		layers = c.NumLayers
	}
	for i := range layers {
		if 0 < i && i <= b.recompute {
			shared := w.layers[0]
			shared.in = matrix(c.HiddenSize)
			w.layers = append(w.layers, shared)
			continue
		}
		// Layer 0 has room for whatever a layer needs: all layers use its memory while the engine only
		// scores, and recomputed layers use it while it trains.
		attends := i == 0 || !c.Convolves(i)
		a := activations{in: matrix(c.HiddenSize), mid: matrix(c.HiddenSize), rstd: t.Float32(rows), midRstd: t.Float32(rows)}
		if i == 0 {
			a.qkv, a.attention = matrix(inputs), matrix(mixed)
		} else {
			a.qkv, a.attention = matrix(b.inputs(i)), matrix(b.mixed(i))
		}
		if attends {
			a.lse = matrix(c.NumHeads)
		}
		if c.PostNorms {
			a.output, a.down, a.outRstd, a.downRstd = matrix(c.HiddenSize), matrix(c.HiddenSize), t.Float32(rows), t.Float32(rows)
		}
		if c.QKNorm && attends {
			a.raw, a.headRstd = matrix(q+kv), t.Float32(rows*(c.NumHeads+c.NumKVHeads))
		}
		if i == 0 || !c.Sparse(i) {
			a.gateUp = matrix(2 * c.DenseSize())
		}
		if c.Sparse(i) || i == 0 && c.Mixture != nil {
			a.experts = takeMixture(c, rows, &t)
		}
		w.layers = append(w.layers, a)
	}
	w.out, w.normed, w.hidden = matrix(c.HiddenSize), matrix(c.HiddenSize), matrix(c.DenseSize())
	if c.Mixture != nil {
		w.experts = takeMixtureSpace(c, rows, train, &t)
	}
	if train {
		w.dOut, w.dNormed = matrix(c.HiddenSize), matrix(max(c.HiddenSize, mixed))
		w.dQKV, w.dHidden = matrix(inputs), matrix(c.DenseSize())
		if c.PostNorms {
			w.dNorm = matrix(c.HiddenSize)
		}
	}
	if t.Err != nil {
		w.free()
		return nil, fmt.Errorf("cpu: activations of %d tokens: %w", rows, t.Err)
	}
	return w, nil
}

func (w *workspace) free() error {
	if w.arena == nil {
		return nil
	}
	return errors.Join(w.arena.Free(), w.low.free())
}

// arenas returns what holds the memory of a pass.
func (s *passes) arenas() []*kernel.Arena {
	w := &s.backbone.work
	all := []*kernel.Arena{w.arena, s.head.space.arena}
	if w.low.arena != nil {
		all = append(all, w.low.arena)
	}
	return all
}

// first returns the first rows and columns of m.
func first(m kernel.Matrix, rows, cols int) kernel.Matrix {
	return m.RowRange(0, rows).ColRange(0, cols)
}
