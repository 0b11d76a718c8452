package cpu

import (
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/model"
)

// Engine trains one model. It implements engine.Trainer; concurrent calls run one after another.
type Engine struct {
	mu           sync.Mutex
	opts         Options
	cfg          *model.Config
	pool         *kernel.Pool
	of           *base
	passes       *passes  // those of the base: use them between borrow and giveBack
	memory       *account // the account of the base, if that has this engine alone
	balance      *balance // nil for a model without experts
	teachers     map[string]*Engine
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
	updater          updater
	hasBase          bool // the updater has the frozen base weights
	inPlace          bool // the updater reads the trained weights where they are
}

// updater receives published weights; the engine's sampler is one.
type updater interface {
	// UpdateFrom takes over the weights of a version, or under LoRA the weights of the base. It must not change what they return.
	UpdateFrom(version int64, w sampler.Weights) error
	// UpdateAdapter takes over the adapter of a version, before or after the base. tensor returns
	// the tensors of lora.Tensors.
	UpdateAdapter(version int64, lora *model.LoRA, tensor func(name string) ([]float32, error)) error
	// InPlace reports whether the updater reads the packed weights where they are. Rest returns once it does not, until the next
	// UpdateFrom.
	InPlace() bool
	Rest()
}

// Open reads a model, or makes random weights if opts says so, and takes all memory that training
// needs.
func Open(opts Options) (*Engine, error) {
	b, source, err := openBase(opts)
	if err != nil {
		return nil, err
	}
	e := b.newEngine(b.opts, &b.memory)
	if err := e.takeAll(source); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.memory.arena.Touch(e.pool)
	b.touch()
	return e, nil
}

// newEngine returns an engine that notes its memory in an account, and has none yet.
func (b *base) newEngine(opts Options, memory *account) *Engine {
	return &Engine{
		opts: opts, cfg: b.cfg, pool: b.pool, of: b, passes: &b.passes, memory: memory, balance: newBalance(b.cfg),
		parameters: parameters{frozen: b.frozen},
	}
}

// takeAll reads the weights and takes all memory of an engine that is alone on its base. It closes the source as soon as the
// weights are read, because the pages of a mapped file count as memory too. source is nil in a plan.
func (e *Engine) takeAll(source *model.Model) error {
	err := e.of.takeFrozen(source)
	e.frozen = e.of.frozen
	if err == nil {
		err = e.takeTrained(source)
	}
	if source != nil {
		err = errors.Join(err, source.Close())
	}
	if err == nil {
		err = e.takeOptimizer()
	}
	if err != nil {
		return err
	}
	e.passes.backbone.low, e.passes.head.low = e.adapters.columns(), e.adapters.headRank()
	return e.of.takePasses()
}

// takeTrained reads what is trained, or draws it.
func (e *Engine) takeTrained(source model.Source) error {
	l := loader{opts: &e.opts, cfg: e.cfg, pool: e.pool, memory: e.memory, parameters: &e.parameters}
	return l.load(source)
}

// Memory returns the memory that Open took, part by part. Batches larger than planned make it grow. That of a tenant is what
// it has beside its base.
func (e *Engine) Memory() []engine.MemoryPart { return e.memory.parts }

// Config describes the model.
func (e *Engine) Config() *model.Config { return e.cfg }

// attach makes Adopt and LoadState hand their weights to u.
func (e *Engine) attach(u updater) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.updater, e.hasBase, e.inPlace = u, false, u != nil && u.InPlace() && e.adapters == nil
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
	if e.updater != nil && e.updater.InPlace() {
		e.updater.Rest()
	}
	err := e.memory.arena.Free()
	if e.memory == &e.of.memory {
		err = errors.Join(err, e.of.close())
	} else if e.weights != nil {
		e.of.leave()
	}
	e.shared = nil
	e.weights, e.grads, e.reference = nil, nil, nil
	if err != nil {
		return fmt.Errorf("cpu: closing: %w", err)
	}
	return nil
}
