package cpu

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

func init() {
	optimizers[trinity.SGD] = func(spec trinity.OptimizerSpec) (optimizer, error) {
		return &sgd{momentum: float32(spec.Momentum), nesterov: spec.Nesterov}, nil
	}
}

// sgd is stochastic gradient descent with momentum (Polyak 1964; Sutskever et al. 2013), as torch.optim.SGD does without dampening:
//
//	g ← scale·gradient + WeightDecay·w
//	b ← momentum·b + g
//	w ← w − LR·d,  d = b, or g + momentum·b with nesterov
//
// Weight decay is part of the gradient, as in that optimizer, and so of the momentum, unlike that of AdamW and Muon. Without momentum there is
// no state.
type sgd struct {
	momentum float32
	nesterov bool
	buffer   vector // b
}

func (s *sgd) describe() string {
	if s.momentum == 0 {
		return trinity.SGD + " without momentum"
	}
	return trinity.SGD
}

func (s *sgd) take(e *Engine) (err error) {
	if s.momentum > 0 {
		s.buffer, err = e.takeVector("momentum_buffer.", e.trainedLayout(), "momentum")
	}
	return err
}

func (s *sgd) state() []stored {
	if s.momentum == 0 {
		return nil
	}
	return []stored{s.buffer}
}

func (s *sgd) step(e *Engine, p trinity.OptimParams, scale float64) {
	e.eachBlock(len(e.trained), func(from, to int) {
		w, g := e.trained[from:to], e.gradient[from:to]
		kernel.Scale(g, g, float32(scale))
		if p.WeightDecay > 0 {
			kernel.Axpy(g, w, float32(p.WeightDecay))
		}
		if s.momentum > 0 {
			follow(s.buffer.flat[from:to], g, s.momentum, s.nesterov)
		}
		kernel.Axpy(w, g, float32(-p.LR))
	})
}

// follow adds a gradient to a momentum, b ← momentum·b + g, and makes g the way to go: b, or g + momentum·b with nesterov.
func follow(b, g []float32, momentum float32, nesterov bool) {
	kernel.Scale(b, b, momentum)
	kernel.AddTo(b, g)
	if nesterov {
		kernel.Axpy(g, b, momentum)
	} else {
		copy(g, b)
	}
}
