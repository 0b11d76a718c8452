package cpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/modelfile"
)

// Engine trains one model. It implements trinity.Engine; calls from several goroutines take turns.
type Engine struct {
	mu      sync.Mutex
	opts    Options
	cfg     *modelfile.Config
	pool    *kernel.Pool
	ownPool bool
	arena   *kernel.Arena // weights, gradient, state of the optimizer

	base     *layout
	baseFlat []float32      // all weights of the model as they were read; frozen where that is asked for
	shared   *sharedWeights // what frozen base weights are a part of
	adapters *adapterLayout // nil without LoRA

	trained, gradient []float32 // of what is trained: baseFlat, or the adapters
	optimizer         optimizer // nil where nothing is trained
	weights, grads    *model
	reference         *model // frozen; nil unless asked for
	steps             int64  // optimizer steps done
	published         int64  // version of the last Publish
	hasPublished      bool   // there was one
	behind            bool   // an optimizer step came after the last Publish
	publishedWeights  []float32
	updater           Updater
	hasBase           bool // the updater has the frozen weights
	rope              ropeTables
	work              workspace
	headSpace         headSpace
	packing           packing
	shareNothing      bool     // computes shared prompts once per sequence: for tests of sharing
	logitsBudget      int      // bytes
	teacherBudget     int      // bytes
	balance           *balance // nil for a model without experts
	teachers          map[string]*Engine
	divergence        kernel.Divergence // of the batch at hand, from its teachers; nil for none
	accumulating      bool              // a gradient was added since the last optimizer step

	memory   []trinity.MemoryPart // what was taken
	planning bool                 // only counts memory
}

var _ trinity.Engine = (*Engine)(nil)

// Updater is what receives published weights: the engine's sampler.
type Updater interface {
	// Update takes over the weights of a version, under LoRA those of the base. tensor returns them by their Hugging Face names; what it
	// returned must not be changed.
	Update(version int64, tensor func(name string) ([]float32, error)) error
	// UpdateAdapter takes over the adapter of a version, which the base comes before or after. tensor returns the tensors of lora.Tensors.
	UpdateAdapter(version int64, lora *modelfile.LoRA, tensor func(name string) ([]float32, error)) error
}

// Open reads a model, or makes random weights if opts say so, and takes all memory that training needs.
func Open(opts Options) (*Engine, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	source, err := openModel(opts)
	if err != nil {
		return nil, err
	}
	e := newEngine(source.Config, opts)
	if e.pool == nil {
		e.pool, e.ownPool = kernel.NewPool(0), true
	}
	if err := e.load(source); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Memory is what the engine took when it was opened, part by part. Batches larger than planned make it grow.
func (e *Engine) Memory() []trinity.MemoryPart { return e.memory }

// Config describes the model.
func (e *Engine) Config() *modelfile.Config { return e.cfg }

// Attach makes Publish and LoadState hand their weights to u.
func (e *Engine) Attach(u Updater) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updater, e.hasBase = u, false
}

// Steps counts the optimizer steps done, those before a resume included.
func (e *Engine) Steps() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.steps
}

// Parameters counts the numbers that are trained.
func (e *Engine) Parameters() int64 {
	slots := e.base.slots
	if e.adapters != nil {
		slots = e.adapters.slots
	}
	var n int64
	for _, s := range slots {
		n += int64(s.size())
	}
	return n
}

// Close gives all memory back; the engine is of no use afterwards.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := errors.Join(e.work.free(), e.headSpace.free(), e.arena.Free(), e.shared.release())
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
