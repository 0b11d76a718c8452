package cpu

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// optimizer changes weights by their gradient and keeps state from step to step.
type optimizer interface {
	// describe names the optimizer and everything that decides which vectors are its state.
	describe() string
	// take takes the memory of the state for weights with this layout.
	take(memory *account, l *layout) error
	// state returns the parts that a resumed run needs.
	state() []stored
	// step changes u.weights. It may overwrite u.gradient.
	step(u update)
}

// update is one optimizer step over everything that is trained.
type update struct {
	trinity.OptimParams
	pool     *kernel.Pool
	number   int64   // of the step, counted from 1
	scale    float64 // multiplies the gradient, to clip it
	layout   *layout
	weights  []float32
	gradient []float32 // row-major
}

// taskSize is the number of weights that one task updates.
const taskSize = 1 << 15

// each calls do for parts of the weights, in parallel. at is the place of w in row-major vectors.
func (u *update) each(spans []span, do func(w []float32, at int)) {
	u.pool.Run(len(spans), func(i int) {
		p := spans[i]
		p.change(u.pool, u.weights, func(w []float32) { do(w, p.slot.from+p.first) })
	})
}

// optimizers are the constructors by name; each optimizer registers itself.
var optimizers = map[string]func(engine.OptimizerSpec) (optimizer, error){}

// newOptimizer returns the optimizer of a spec, without memory.
func newOptimizer(spec engine.OptimizerSpec) (optimizer, error) {
	name := spec.Type
	if name == "" {
		name = engine.AdamW
	}
	build, ok := optimizers[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("cpu: optimizer %q; expected %s", name, strings.Join(slices.Sorted(maps.Keys(optimizers)), ", "))
	case !(spec.Momentum >= 0 && spec.Momentum < 1):
		return nil, fmt.Errorf("cpu: optimizer %s: momentum is %v; expected at least 0 and less than 1", name, spec.Momentum)
	case spec.Nesterov && spec.Momentum == 0:
		return nil, fmt.Errorf("cpu: optimizer %s: Nesterov momentum has no effect if momentum is 0", name)
	}
	return build(spec)
}

// stored is a part of a saved state: some tensors of a file.
type stored interface {
	entries() []safetensors.Entry
	read(file *safetensors.File) error
}

// vector is a number for every weight of a layout.
type vector struct {
	prefix string // of the tensors' names in a saved state
	layout *layout
	flat   []float32
}

// in returns a tensor's part of the vector.
func (v vector) in(name string) []float32 { return v.layout.in(v.flat, name) }

// takeVector takes the memory of a vector in an optimizer's state.
func takeVector(memory *account, prefix string, l *layout, why string) (vector, error) {
	flat, err := memory.take("optimizer", l.size, why+", float32")
	return vector{prefix, l, flat}, err
}

// OptimStep applies the gradient to every trained tensor, norms and biases included, and clears it.
// If the gradient's norm exceeds ClipNorm, it scales the gradient down first. It is an error if the
// gradient is not finite; the weights are then unchanged.
//
// The metrics are grad_norm, before clipping, and lr. For a model with experts they include
// router/load_max, router/load_min and router/load_entropy, the load of the experts since the last
// step, and with replayed experts router/replay_changed (see balance.report).
func (e *Engine) OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error) {
	if err := checkOptim(p); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.trainable(ctx); err != nil {
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
	e.changes()
	e.copyPublished()
	e.steps++
	e.optimizer.step(update{
		OptimParams: p, pool: e.pool, number: e.steps, scale: scale, layout: e.trainedLayout(), weights: e.trained, gradient: e.gradient,
	})
	metrics := trinity.Metrics{"grad_norm": norm, "lr": p.LR}
	e.balance.report(metrics)
	e.clearGradient()
	return metrics, nil
}

// Discard implements [engine.Discarder].
func (e *Engine) Discard(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.trainable(ctx); err != nil {
		return err
	}
	e.clearGradient()
	return nil
}

// clearGradient makes the gradient 0, and forgets the loads of the passes that it came from.
func (e *Engine) clearGradient() {
	clearFlat(e.pool, e.gradient)
	e.accumulating = false
	e.balance.clear()
}

// copyPublished copies the published weights before they change, if the options ask for it.
func (e *Engine) copyPublished() {
	if e.publishedWeights != nil && !e.behind {
		copyFlat(e.pool, e.publishedWeights, e.trained)
	}
	e.behind = true
}

// checkOptim refuses parameters outside their ranges.
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
