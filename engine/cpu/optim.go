package cpu

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile/safetensors"
)

// optimizer is a rule that changes the weights by their gradient, with what it remembers from step to step.
type optimizer interface {
	// describe names the rule, and all that decides which vectors are its state.
	describe() string
	// take takes the memory of the state, of what e trains.
	take(e *Engine) error
	// state is what a resumed run goes on with.
	state() []stored
	// step changes e's weights by its gradient times scale, and may use the gradient up. e.steps counts this step.
	step(e *Engine, p trinity.OptimParams, scale float64)
}

// optimizers make the rules by name; each registers itself.
var optimizers = map[string]func(trinity.OptimizerSpec) (optimizer, error){}

// newOptimizer is the rule of a spec, without memory.
func newOptimizer(spec trinity.OptimizerSpec) (optimizer, error) {
	name := spec.Type
	if name == "" {
		name = trinity.AdamW
	}
	build, ok := optimizers[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("cpu: optimizer %q; expected %s", name, strings.Join(slices.Sorted(maps.Keys(optimizers)), ", "))
	case !(spec.Momentum >= 0 && spec.Momentum < 1):
		return nil, fmt.Errorf("cpu: optimizer %s: momentum is %v; expected at least 0 and less than 1", name, spec.Momentum)
	case spec.Nesterov && spec.Momentum == 0:
		return nil, fmt.Errorf("cpu: optimizer %s: Nesterov's momentum has no effect where momentum is 0", name)
	}
	return build(spec)
}

// stored is a part of the state of a run: tensors of a file.
type stored interface {
	entries() []safetensors.Entry
	read(file *safetensors.File) error
}

// vector is a number for every weight of a layout.
type vector struct {
	prefix string // of the names of its tensors in a saved state
	layout *layout
	flat   []float32
}

// in is the tensor's part.
func (v vector) in(name string) []float32 { return v.layout.in(v.flat, name) }

// takeVector takes the memory of a vector of an optimizer's state.
func (e *Engine) takeVector(prefix string, l *layout, why string) (vector, error) {
	flat, err := e.take("optimizer", l.size, why+", float32")
	return vector{prefix, l, flat}, err
}

// OptimStep applies the gradient by the engine's optimizer to every tensor that is trained, norms and biases included, and clears it. The
// gradient is scaled down first if its norm is over ClipNorm.
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
	e.optimizer.step(e, p, scale)
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
