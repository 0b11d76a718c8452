package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// Plan is the memory that Open with the same options takes, part by part. It walks the path that Open walks, with arenas that only count.
func Plan(cfg *modelfile.Config, opts Options) ([]trinity.MemoryPart, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if opts.Value {
		var err error
		if cfg, err = cfg.WithValueHead(); err != nil {
			return nil, fmt.Errorf("cpu: %w", err)
		}
	} else if err := checkHead(cfg, opts); err != nil {
		return nil, err
	}
	e := newEngine(cfg, opts)
	e.planning = true
	if err := e.takeWeights(nil); err != nil {
		return nil, err
	}
	if err := e.takeMemory(); err != nil {
		return nil, err
	}
	return e.memory, nil
}

// newEngine is an engine without memory.
func newEngine(cfg *modelfile.Config, opts Options) *Engine {
	e := &Engine{opts: opts, cfg: cfg, pool: opts.Pool, logitsBudget: logitsBudget, teacherBudget: teacherBudget}
	e.opts.Recompute = min(opts.Recompute, cfg.NumLayers-1)
	e.rope.cfg, e.balance = cfg, newBalance(cfg)
	return e
}

// newArena is where memory comes from.
func (e *Engine) newArena() *kernel.Arena {
	if e.planning {
		return kernel.NewTally()
	}
	return kernel.NewArena()
}

// place decides where every base weight lies.
func (e *Engine) place() (err error) {
	e.arena = e.newArena()
	e.base, err = modelLayout(e.cfg)
	return err
}

// take is n floats that the engine keeps.
func (e *Engine) take(kind string, n int, why string) ([]float32, error) {
	v, err := e.arena.Float32(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: %s: %w", kind, err)
	}
	e.note(kind, 4*int64(n), why)
	return v, nil
}

// The kinds of memory that weights are read into.
const (
	frozenWeights  = "base weights"
	trainedWeights = "weights"
)

// note adds to the account of memory.
func (e *Engine) note(kind string, bytes int64, why string) {
	if n := len(e.memory) - 1; n >= 0 && e.memory[n].Kind == kind {
		e.memory[n].Bytes += bytes
		return
	}
	e.memory = append(e.memory, trinity.MemoryPart{Kind: kind, Bytes: bytes, Why: why})
}

// takeMemory takes what is needed besides weights: of the optimizer, of the planned micro-batch, and for temporary use.
func (e *Engine) takeMemory() error {
	if !e.opts.ForwardOnly {
		if err := e.takeOptimizer(); err != nil {
			return err
		}
	}
	if err := e.work.reserve(e, e.opts.MaxTokens, !e.opts.ForwardOnly); err != nil {
		return err
	}
	why := fmt.Sprintf("micro-batch of %d tokens", e.opts.MaxTokens)
	if n := e.opts.Recompute; n > 0 && !e.opts.ForwardOnly {
		why += fmt.Sprintf(", those of %d of %d layers computed again", n, e.cfg.NumLayers)
	}
	e.note("activations", e.work.arena.Bytes(), why)
	if err := e.headSpace.plan(e, e.opts.MaxTokens, !e.opts.ForwardOnly); err != nil {
		return err
	}
	switch h := &e.headSpace; {
	case e.hasScore():
		e.note("values", h.arena.Bytes(), "hidden states and values; there are no logits")
	case e.opts.TeacherWidth > 0:
		e.note("logits", h.arena.Bytes(), fmt.Sprintf("%d rows kept at once, %d of a teacher's, and its hidden states", h.kept, h.slab.Rows))
	default:
		e.note("logits", h.arena.Bytes(), fmt.Sprintf("%d rows kept at once", h.kept))
	}
	e.note("scratch", e.scratch(), fmt.Sprintf("of attention and matrix products, %d cores", e.cores()))
	return nil
}

// cores is how many the engine computes with.
func (e *Engine) cores() int {
	if e.pool == nil {
		return kernel.Cores().Used
	}
	return e.pool.Size()
}

func (e *Engine) takeOptimizer() (err error) {
	n := e.trainedLayout().size
	if e.gradient, err = e.take("gradient", n, "float32, of what is trained"); err != nil {
		return err
	}
	if e.optimizer, err = newOptimizer(e.opts.Optimizer); err != nil {
		return err
	}
	if err := e.optimizer.take(e); err != nil {
		return err
	}
	if e.opts.KeepPublished {
		if err := e.keepsPublished(); err != nil {
			return err
		}
	}
	if e.adapters != nil {
		e.grads = viewModel(e.cfg, e.base, nil, e.adapters, e.gradient)
	} else {
		e.grads = viewModel(e.cfg, e.base, e.gradient, nil, nil)
	}
	return nil
}

// keepsPublished makes room for the published weights, if there is none: a state may have them of a run that kept them.
func (e *Engine) keepsPublished() (err error) {
	if e.publishedWeights == nil {
		e.publishedWeights, err = e.take("published weights", e.trainedLayout().size, "what samplers have while newer weights are trained, float32")
	}
	return err
}

// scratch is the memory in bytes that kernels borrow at once.
func (e *Engine) scratch() int64 {
	length := e.opts.MaxTokens
	if e.opts.MaxLength > 0 {
		length = min(length, e.opts.MaxLength)
	}
	floats, cores := 0, e.cores()
	for layer := range e.cfg.NumLayers {
		floats = max(floats, cores*e.attentionOf(layer).BackwardScratch(length))
	}
	products := 1 // at once
	if e.cfg.Mixture != nil {
		products = min(cores, e.cfg.Mixture.Experts)
	}
	operand := max(largestTensor(e.cfg), e.opts.MaxTokens*max(e.cfg.HiddenSize, 2*e.cfg.WidestMLP()))
	floats += products * kernel.ProductScratch((cores+products-1)/products, operand)
	return 4 * int64(floats)
}
