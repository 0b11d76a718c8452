package cpu

import (
	"context"
	"fmt"
	"math"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
)

// OptimStep applies the gradient by AdamW with decoupled weight decay on every tensor, norms and biases included, as torch.optim.AdamW
// does with one parameter group, and clears it. The gradient is scaled down first if its norm is over ClipNorm.
// Metrics: grad_norm before clipping, lr; of a model with experts also router/load_max, router/load_min and router/load_entropy, the load of
// the experts since the last step (see balance.report).
func (e *Engine) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	if err := checkOptim(p); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opts.ForwardOnly {
		return nil, errForwardOnly
	}
	if err := e.usable(ctx); err != nil {
		return nil, err
	}
	norm := math.Sqrt(kernel.SumSquares(e.pool, e.gradient))
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil, fmt.Errorf("cpu: the gradient of optimizer step %d is not finite; the weights are unchanged: lower the learning rate or check the loss", e.steps+1)
	}
	scale := 1.0
	if p.ClipNorm > 0 {
		scale = min(1, p.ClipNorm/(norm+1e-6)) // torch.nn.utils.clip_grad_norm_
	}
	e.keepPublished()
	e.steps++
	n := float64(e.steps)
	kernel.AdamW{
		LearningRate: p.LR, Beta1: p.Beta1, Beta2: p.Beta2, Eps: p.Eps, WeightDecay: p.WeightDecay,
		Correction1: 1 - math.Pow(p.Beta1, n), Correction2: 1 - math.Pow(p.Beta2, n), GradScale: scale,
	}.Step(e.pool, e.trained, e.gradient, e.moment1, e.moment2)
	e.clearFlat(e.gradient)
	e.accumulating = false
	metrics := trinity.Metrics{"grad_norm": norm, "lr": p.LR}
	e.balance.report(metrics)
	return metrics, nil
}

// keepPublished saves the weights that samplers have before they change.
func (e *Engine) keepPublished() {
	if e.publishedWeights != nil && !e.behind {
		e.copyFlat(e.publishedWeights, e.trained)
	}
	e.behind = true
}

func checkOptim(p trinity.OptimParams) error {
	for _, v := range []struct {
		name  string
		value float64
		ok    bool
	}{
		{"learning rate", p.LR, p.LR >= 0}, {"beta1", p.Beta1, p.Beta1 >= 0 && p.Beta1 < 1}, {"beta2", p.Beta2, p.Beta2 >= 0 && p.Beta2 < 1},
		{"eps", p.Eps, p.Eps >= 0}, {"weight decay", p.WeightDecay, p.WeightDecay >= 0},
	} {
		if !v.ok || math.IsInf(v.value, 0) {
			return fmt.Errorf("cpu: optimizer: %s is %v", v.name, v.value)
		}
	}
	return nil
}
