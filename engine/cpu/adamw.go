package cpu

import (
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

func init() {
	optimizers[trinity.AdamW] = func(spec trinity.OptimizerSpec) (optimizer, error) {
		if spec.Momentum != 0 {
			return nil, fmt.Errorf("cpu: optimizer adamw: momentum has no effect: it is OptimParams.Beta1")
		}
		return &adamW{}, nil
	}
}

// adamW is Adam with decoupled weight decay (Loshchilov & Hutter 2019), as torch.optim.AdamW does with one parameter group.
type adamW struct{ mean, square vector }

func (*adamW) describe() string { return trinity.AdamW }

func (a *adamW) take(e *Engine) (err error) {
	const why = "two moments"
	if a.mean, err = e.takeVector("exp_avg.", e.trainedLayout(), why); err != nil {
		return err
	}
	a.square, err = e.takeVector("exp_avg_sq.", e.trainedLayout(), why)
	return err
}

func (a *adamW) state() []stored { return []stored{a.mean, a.square} }

func (a *adamW) step(e *Engine, p trinity.OptimParams, scale float64) {
	adamWStep(e.steps, p, scale).Step(e.pool, e.trained, e.gradient, a.mean.flat, a.square.flat)
}

// adamWStep are the constants of a step, counted from 1.
func adamWStep(step int64, p trinity.OptimParams, scale float64) kernel.AdamW {
	n := float64(step)
	return kernel.AdamW{
		LearningRate: p.LR, Beta1: p.Beta1, Beta2: p.Beta2, Eps: p.Eps, WeightDecay: p.WeightDecay,
		Correction1: 1 - math.Pow(p.Beta1, n), Correction2: 1 - math.Pow(p.Beta2, n), GradScale: scale,
	}
}
