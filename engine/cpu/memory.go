package cpu

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// The kinds of memory that weights are read into.
const (
	frozenWeights  = "base weights"
	trainedWeights = "weights"
)

// Plan returns the memory that Open takes with the same options, part by part. It runs the code of
// Open with arenas that only count.
func Plan(cfg *model.Config, opts Options) ([]engine.MemoryPart, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	if head, isNew := opts.head(); isNew {
		var err error
		if cfg, err = cfg.WithHead(head); err != nil {
			return nil, fmt.Errorf("cpu: %w", err)
		}
	} else if err := checkHead(cfg, opts); err != nil {
		return nil, err
	}
	b := newBase(cfg, opts, true)
	e := b.newEngine(opts, &b.memory)
	if err := e.takeAll(nil); err != nil {
		return nil, err
	}
	return e.memory.parts, nil
}

// takePasses takes what a pass needs: the memory of the planned micro-batch, and scratch.
func (b *base) takePasses() error {
	rows, train, bone, h := b.opts.MaxTokens, !b.opts.ForwardOnly, &b.passes.backbone, &b.passes.head
	if err := bone.reserve(rows, train); err != nil {
		return err
	}
	why := fmt.Sprintf("micro-batch of %d tokens", rows)
	if bone.recompute > 0 && train {
		why += fmt.Sprintf(", %d of %d layers recomputed", bone.recompute, b.cfg.NumLayers)
	}
	b.memory.note("activations", bone.work.arena.Bytes()+bone.work.low.bytes(), why)
	if err := h.plan(rows, train); err != nil {
		return err
	}
	switch bytes := h.space.arena.Bytes(); {
	case h.hasScore():
		b.memory.note("values", bytes, "hidden states and values; there are no logits")
	case h.compare.width > 0:
		b.memory.note("logits", bytes, fmt.Sprintf("%d rows kept at once, %d of a teacher's, and its hidden states", h.space.kept, h.compare.slab.Rows))
	default:
		b.memory.note("logits", bytes, fmt.Sprintf("%d rows kept at once", h.space.kept))
	}
	cores := b.cores()
	b.memory.note("scratch", scratch(b.cfg, b.opts, cores), fmt.Sprintf("for attention and matrix products, %d cores", cores))
	return nil
}

// cores returns the number of cores that the engines compute with.
func (b *base) cores() int {
	if b.pool == nil {
		return kernel.Cores().Used
	}
	return b.pool.Size()
}

// takeOptimizer takes the gradient, the optimizer's state and the copy of the published weights, unless nothing is trained.
func (e *Engine) takeOptimizer() (err error) {
	if e.opts.ForwardOnly {
		return nil
	}
	l := e.trainedLayout()
	if e.gradient, err = e.memory.take("gradient", l.size, "float32, one number per trained weight"); err != nil {
		return err
	}
	if e.optimizer, err = newOptimizer(e.opts.Optimizer); err != nil {
		return err
	}
	if err := e.optimizer.take(e.memory, l); err != nil {
		return err
	}
	if e.opts.KeepPublished {
		if err := e.takePublished(); err != nil {
			return err
		}
	}
	if e.adapters != nil {
		e.grads = viewModel(e.cfg, view{layout: e.base}, e.adapters, e.gradient)
	} else {
		e.grads = viewModel(e.cfg, view{layout: e.base, flat: e.gradient}, nil, nil)
	}
	return nil
}

// takePublished makes room for the published weights, unless there is room. LoadState needs it even
// without KeepPublished if the saved run kept them.
func (e *Engine) takePublished() (err error) {
	if e.publishedWeights == nil {
		const why = "the samplers' weights while newer ones are trained, float32"
		e.publishedWeights, err = e.memory.take("published weights", e.trainedLayout().room, why)
	}
	return err
}

// scratch returns the memory in bytes that kernels borrow at once.
func scratch(cfg *model.Config, opts Options, cores int) int64 {
	length := opts.MaxTokens
	if opts.MaxLength > 0 {
		length = min(length, opts.MaxLength)
	}
	floats := 0
	for layer := range cfg.NumLayers {
		floats = max(floats, cores*attentionOf(cfg, layer).BackwardScratch(length))
	}
	if s := cfg.ShortConv; s != nil {
		floats = max(floats, kernel.ShortConvScratch(cfg.HiddenSize, s.Taps, cores))
	}
	if cfg.NormOffset != 0 {
		floats += max(cfg.HiddenSize, cfg.HeadDim) // of norm.gain
	}
	products := 1 // at once
	if cfg.Mixture != nil {
		products = min(cores, cfg.Mixture.Experts)
	}
	operand := max(largestTensor(cfg), opts.MaxTokens*max(cfg.HiddenSize, 2*cfg.WidestMLP()))
	floats += products * kernel.ProductScratch((cores+products-1)/products, operand)
	return 4 * int64(floats)
}
