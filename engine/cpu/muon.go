package cpu

import (
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

func init() {
	optimizers[trinity.Muon] = func(spec trinity.OptimizerSpec) (optimizer, error) {
		return &muon{momentum: float32(spec.Momentum), nesterov: spec.Nesterov}, nil
	}
}

// muon is momentum that is orthogonalised (Jordan et al. 2024) for every matrix of the layers, and AdamW for the rest: embeddings, vocabulary
// projection, value head, norms and biases. For a matrix w [rows, cols], one of the model's or an A or B of LoRA,
//
//	b ← momentum·b + g,  d = b, or g + momentum·b with nesterov      (g = scale·gradient)
//	w ← (1 − LR·WeightDecay)·w − LR·0.2·√max(rows, cols)·orthogonal(d)
//
// where orthogonal keeps the singular vectors of d and brings its singular values near 1 (see newtonSchulz). The factor of Liu et al. 2025
// (equation 4) gives the update the root mean square that AdamW's usually has, 0.2, so that learning rate and weight decay are those of
// AdamW. torch.optim.Muon calls it adjust_lr_fn "match_rms_adamw"; it iterates in bf16, this in f32.
//
// The state is one number for a weight of a matrix, two for any other. A step costs (1.5·cols + 8.5·rows)·rows² multiply-adds and a little more for a
// matrix with rows ≤ cols, whatever the batch.
type muon struct {
	momentum     float32
	nesterov     bool
	buffer       vector // b, of the matrices
	mean, square vector // of the rest
	space        orthogonal
}

func (*muon) describe() string { return trinity.Muon }

func (m *muon) take(e *Engine) (err error) {
	matrices, rest := &layout{index: map[string]int{}}, &layout{index: map[string]int{}}
	largest, inner := 0, 0
	for _, s := range e.trainedLayout().slots {
		if !isHiddenMatrix(s) {
			rest.add(slot{name: s.name, shape: s.shape})
			continue
		}
		matrices.add(slot{name: s.name, shape: s.shape})
		largest, inner = max(largest, s.size()), max(inner, min(s.shape[0], s.shape[1]))
	}
	const why = "momentum of matrices, two moments of the rest, scratch for the largest matrix"
	for _, v := range []struct {
		to     *vector
		prefix string
		layout *layout
	}{{&m.buffer, "momentum_buffer.", matrices}, {&m.mean, "exp_avg.", rest}, {&m.square, "exp_avg_sq.", rest}} {
		if *v.to, err = e.takeVector(v.prefix, v.layout, why); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		to *[]float32
		n  int
	}{{&m.space.result, largest}, {&m.space.gram, inner * inner}, {&m.space.polynomial, inner * inner}, {&m.space.all, inner * inner}, {&m.space.product, inner * inner}} {
		if *v.to, err = e.take("optimizer", v.n, why); err != nil {
			return err
		}
	}
	return nil
}

// isHiddenMatrix tells the matrices of the layers, whose inputs and outputs are hidden states, from what maps tokens, classes or values.
func isHiddenMatrix(s slot) bool {
	return len(s.shape) == 2 && s.name != embeddingName && s.name != headName && s.name != scoreName
}

func (m *muon) state() []stored { return []stored{m.buffer, m.mean, m.square} }

func (m *muon) step(e *Engine, p trinity.OptimParams, scale float64) {
	l := e.trainedLayout()
	for _, s := range m.buffer.layout.slots {
		w, g, b := l.in(e.trained, s.name), l.in(e.gradient, s.name), m.buffer.in(s.name)
		e.eachBlock(len(g), func(from, to int) {
			kernel.Scale(g[from:to], g[from:to], float32(scale))
			follow(b[from:to], g[from:to], m.momentum, m.nesterov)
		})
		update := m.space.newtonSchulz(e, kernel.NewMatrix(g, s.shape[0], s.shape[1]))
		rate := p.LR * 0.2 * math.Sqrt(float64(max(s.shape[0], s.shape[1])))
		e.eachBlock(len(w), func(from, to int) {
			kernel.Scale(w[from:to], w[from:to], float32(1-p.LR*p.WeightDecay))
			kernel.Axpy(w[from:to], update[from:to], float32(-rate))
		})
	}
	adam := adamWStep(e.steps, p, scale)
	for _, s := range m.mean.layout.slots {
		adam.Step(e.pool, l.in(e.trained, s.name), l.in(e.gradient, s.name), m.mean.in(s.name), m.square.in(s.name))
	}
}
