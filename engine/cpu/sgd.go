package cpu

import (
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

func init() {
	optimizers[engine.SGD] = func(spec engine.OptimizerSpec) (optimizer, error) {
		return &sgd{momentum: float32(spec.Momentum), nesterov: spec.Nesterov}, nil
	}
}

// sgd is stochastic gradient descent with momentum (Polyak 1964; Sutskever et al. 2013), like
// torch.optim.SGD without dampening:
//
//	g ← scale·gradient + WeightDecay·w
//	b ← momentum·b + g
//	w ← w − LR·d,  d = b, or g + momentum·b with nesterov
//
// As in torch.optim.SGD, weight decay is part of the gradient and so of the momentum; AdamW and
// Muon decay the weights directly. Without momentum there is no state.
type sgd struct {
	momentum float32
	nesterov bool
	buffer   vector // b
	spans    []span
}

func (s *sgd) describe() string {
	if s.momentum == 0 {
		return engine.SGD + " without momentum"
	}
	return engine.SGD
}

func (s *sgd) take(memory *account, l *layout) (err error) {
	s.spans = l.spans(taskSize)
	if s.momentum > 0 {
		s.buffer, err = takeVector(memory, "momentum_buffer.", l, "momentum")
	}
	return err
}

func (s *sgd) state() []stored {
	if s.momentum == 0 {
		return nil
	}
	return []stored{s.buffer}
}

func (s *sgd) step(u update) {
	u.each(s.spans, func(w []float32, at int) {
		to := at + len(w)
		g := u.gradient[at:to]
		kernel.Scale(g, g, float32(u.scale))
		if u.WeightDecay > 0 {
			kernel.Axpy(g, w, float32(u.WeightDecay))
		}
		if s.momentum > 0 {
			addMomentum(s.buffer.flat[at:to], g, s.momentum, s.nesterov)
		}
		kernel.Axpy(w, g, float32(-u.LR))
	})
}

// addMomentum adds a gradient to the momentum, b ← momentum·b + g, and replaces g by the direction
// of the step: b, or g + momentum·b with nesterov.
func addMomentum(b, g []float32, momentum float32, nesterov bool) {
	kernel.Scale(b, b, momentum)
	kernel.AddTo(b, g)
	if nesterov {
		kernel.Axpy(g, b, momentum)
	} else {
		copy(g, b)
	}
}
