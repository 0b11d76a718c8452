package cpu

import (
	"math"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

func init() {
	optimizers[engine.Muon] = func(spec engine.OptimizerSpec) (optimizer, error) {
		return &muon{momentum: float32(spec.Momentum), nesterov: spec.Nesterov}, nil
	}
}

// muon is orthogonalised momentum (Jordan et al. 2024) for every matrix of the layers, and AdamW
// for the rest: embeddings, vocabulary projection, value head, norms and biases. For a matrix w
// [rows, cols], of the model or an A or B of LoRA,
//
//	b ← momentum·b + g,  d = b, or g + momentum·b with nesterov      (g = scale·gradient)
//	w ← (1 − LR·WeightDecay)·w − LR·0.2·√max(rows, cols)·orthogonal(d)
//
// where orthogonal keeps the singular vectors of d and brings its singular values near 1 (see
// newtonSchulz). The factor 0.2·√max(rows, cols) of Liu et al. 2025 (equation 4) gives the update a
// root mean square of 0.2, which AdamW's updates usually have; so AdamW's learning rate and weight
// decay fit. torch.optim.Muon calls this adjust_lr_fn "match_rms_adamw"; it iterates in bf16, this
// code in f32.
//
// The state is one number for a weight of a matrix and two for any other weight. For a matrix with
// rows ≤ cols, a step costs a little more than (1.5·cols + 8.5·rows)·rows² multiply-adds, for any
// batch.
type muon struct {
	momentum     float32
	nesterov     bool
	buffer       vector // b, for the matrices
	mean, square vector // AdamW's moments, for the rest
	space        orthogonal
}

func (*muon) describe() string { return engine.Muon }

func (m *muon) take(memory *account, l *layout) (err error) {
	matrices, rest := &layout{index: map[string]int{}}, &layout{index: map[string]int{}}
	largest, inner := 0, 0
	for _, s := range l.slots {
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
		if *v.to, err = takeVector(memory, v.prefix, v.layout, why); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		to *[]float32
		n  int
	}{
		{&m.space.result, largest}, {&m.space.gram, inner * inner}, {&m.space.polynomial, inner * inner},
		{&m.space.all, inner * inner}, {&m.space.product, inner * inner},
	} {
		if *v.to, err = memory.take("optimizer", v.n, why); err != nil {
			return err
		}
	}
	return nil
}

// isHiddenMatrix reports whether s is a matrix of the layers, which maps hidden states to hidden
// states. Embeddings, vocabulary projection and value head map tokens, classes or values.
func isHiddenMatrix(s slot) bool {
	return len(s.shape) == 2 && s.name != embeddingName && s.name != headName && s.name != scoreName
}

func (m *muon) state() []stored { return []stored{m.buffer, m.mean, m.square} }

func (m *muon) step(u update) {
	for _, s := range m.buffer.layout.slots {
		g, b := u.layout.in(u.gradient, s.name), m.buffer.in(s.name)
		eachBlock(u.pool, len(g), func(from, to int) {
			kernel.Scale(g[from:to], g[from:to], float32(u.scale))
			addMomentum(b[from:to], g[from:to], m.momentum, m.nesterov)
		})
		direction := m.space.newtonSchulz(u.pool, kernel.NewMatrix(g, s.shape[0], s.shape[1]))
		rate := u.LR * 0.2 * math.Sqrt(float64(max(s.shape[0], s.shape[1])))
		at, _ := u.layout.find(s.name)
		u.each(at.spans(taskSize), func(w []float32, from int) {
			kernel.Scale(w, w, float32(1-u.LR*u.WeightDecay))
			kernel.Axpy(w, direction[from-at.from:][:len(w)], float32(-rate))
		})
	}
	adam := u.adamW().Prepare()
	for _, s := range m.mean.layout.slots {
		at, _ := u.layout.find(s.name)
		g, mean, square := u.layout.in(u.gradient, s.name), m.mean.in(s.name), m.square.in(s.name)
		u.each(at.spans(taskSize), func(w []float32, from int) {
			from -= at.from
			to := from + len(w)
			adam.Update(w, g[from:to], mean[from:to], square[from:to])
		})
	}
}
