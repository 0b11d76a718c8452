package cpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// Engine trains one model. It implements engine.Trainer; concurrent calls run one after another.
type Engine struct {
	mu           sync.Mutex
	opts         Options
	cfg          *model.Config
	pool         *kernel.Pool
	ownPool      bool // Close closes the pool
	memory       account
	passes       passes
	optimizer    optimizer // nil under ForwardOnly
	steps        int64     // optimizer steps done
	accumulating bool      // ForwardBackward added a gradient since the last OptimStep
	parameters
	publication
}

var _ engine.Trainer = (*Engine)(nil)

// publication is the version that samplers have.
type publication struct {
	published        int64     // version of the last Offer
	hasPublished     bool      // there was an Offer
	behind           bool      // OptimStep has changed the weights since
	publishedWeights []float32 // copy of the published weights, valid if behind is set; see Options.KeepPublished
	updater          Updater
	hasBase          bool // the updater has the frozen base weights
}

// Updater receives published weights; the engine's sampler is one.
type Updater interface {
	// Update takes over the weights of a version, or under LoRA the weights of the base. tensor
	// returns them by their Hugging Face names; Update must not change what it returns.
	Update(version int64, tensor func(name string) ([]float32, error)) error
	// UpdateAdapter takes over the adapter of a version, before or after the base. tensor returns
	// the tensors of lora.Tensors.
	UpdateAdapter(version int64, lora *model.LoRA, tensor func(name string) ([]float32, error)) error
}

// Open reads a model, or makes random weights if opts says so, and takes all memory that training
// needs.
func Open(opts Options) (*Engine, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	source, err := openModel(opts)
	if err != nil {
		return nil, err
	}
	ownPool := opts.Pool == nil
	if ownPool {
		opts.Pool = kernel.NewPool(0)
	}
	e := newEngine(source.Config, opts, false)
	e.ownPool = ownPool
	if err := e.takeAll(source); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	for _, a := range []*kernel.Arena{e.memory.arena, e.passes.backbone.work.arena, e.passes.head.space.arena} {
		a.Touch(e.pool)
	}
	return e, nil
}

// newEngine returns an engine without memory. With planning, its memory is only counted.
func newEngine(cfg *model.Config, opts Options, planning bool) *Engine {
	e := &Engine{opts: opts, cfg: cfg, pool: opts.Pool, memory: newAccount(planning)}
	e.passes = passes{
		cfg: cfg, maxTokens: opts.MaxTokens,
		backbone: backbone{
			cfg: cfg, pool: opts.Pool, newArena: e.memory.newArena, recompute: min(opts.Recompute, cfg.NumLayers-1),
			rope: ropeTables{cfg: cfg}, balance: newBalance(cfg),
		},
		head: head{
			cfg: cfg, pool: opts.Pool, newArena: e.memory.newArena, budget: logitsBudget,
			compare: comparison{width: opts.TeacherWidth, budget: teacherBudget},
		},
	}
	return e
}

// takeAll reads the weights and takes all memory. It closes the source as soon as the weights are
// read, because the pages of a mapped file count as memory too. source is nil in a plan.
func (e *Engine) takeAll(source *model.Model) error {
	l := loader{opts: &e.opts, cfg: e.cfg, pool: e.pool, memory: &e.memory, parameters: &e.parameters}
	err := l.load(source)
	if source != nil {
		err = errors.Join(err, source.Close())
	}
	if err != nil {
		return err
	}
	return e.takeMemory()
}

// Memory returns the memory that Open took, part by part. Batches larger than planned make it grow.
func (e *Engine) Memory() []engine.MemoryPart { return e.memory.parts }

// Config describes the model.
func (e *Engine) Config() *model.Config { return e.cfg }

// Attach makes Adopt and LoadState hand their weights to u.
func (e *Engine) Attach(u Updater) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updater, e.hasBase = u, false
}

// Steps returns the number of optimizer steps done, including those before a resume.
func (e *Engine) Steps() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.steps
}

// Parameters returns the number of trained weights.
func (e *Engine) Parameters() int64 { return e.count() }

// Close frees all memory. Every later call fails.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := errors.Join(e.passes.backbone.work.free(), e.passes.head.free(), e.memory.arena.Free(), e.shared.release())
	e.shared = nil
	if e.ownPool {
		e.pool.Close()
	}
	e.weights, e.grads, e.reference = nil, nil, nil
	if err != nil {
		return fmt.Errorf("cpu: closing: %w", err)
	}
	return nil
}
