package cpu

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

func init() {
	optimizers[engine.AdamW] = func(spec engine.OptimizerSpec) (optimizer, error) {
		if spec.Momentum != 0 {
			return nil, fmt.Errorf("cpu: optimizer adamw: momentum has no effect: set OptimParams.Beta1")
		}
		return &adamW{}, nil
	}
}

// adamW is Adam with decoupled weight decay (Loshchilov & Hutter 2019), like torch.optim.AdamW with
// one parameter group.
type adamW struct {
	mean, square vector
	spans        []span
}

func (*adamW) describe() string { return engine.AdamW }

func (a *adamW) take(memory *account, l *layout) (err error) {
	a.spans = l.spans(taskSize)
	const why = "two moments"
	if a.mean, err = takeVector(memory, "exp_avg.", l, why); err != nil {
		return err
	}
	a.square, err = takeVector(memory, "exp_avg_sq.", l, why)
	return err
}

func (a *adamW) state() []stored { return []stored{a.mean, a.square} }

func (a *adamW) step(u update) {
	adam := u.adamW().Prepare()
	u.each(a.spans, func(w []float32, at int) {
		to := at + len(w)
		adam.Update(w, u.gradient[at:to], a.mean.flat[at:to], a.square.flat[at:to])
	})
}

// adamW returns the constants of an AdamW step.
func (u *update) adamW() kernel.AdamW {
	n := float64(u.number)
	return kernel.AdamW{
		LearningRate: u.LR, Beta1: u.Beta1, Beta2: u.Beta2, Eps: u.Eps, WeightDecay: u.WeightDecay,
		Correction1: 1 - math.Pow(u.Beta1, n), Correction2: 1 - math.Pow(u.Beta2, n), GradScale: u.scale,
	}
}
