package cpu

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/model"
)

// base is what engines of one model share: its frozen weights, the memory of a pass, and the cores. The engine of Open has one
// alone; the tenants of an engine.Base borrow the memory in turn.
type base struct {
	opts    Options
	cfg     *model.Config
	pool    *kernel.Pool
	ownPool bool // close closes the pool
	memory  account
	frozen
	passes passes
	lent   chan struct{} // has an element while an engine computes with passes

	mu      sync.Mutex
	tenants int // that are open
	columns int // of the scratch for low-rank updates of the layers
	rank    int // that the head has scratch for
	closed  bool
}

// frozen are the weights that no engine changes.
type frozen struct {
	base     *layout
	baseFlat []float32      // all weights as read from the model; frozen under LoRA, Reference and ForwardOnly
	shared   *sharedWeights // owns baseFlat if that is frozen
}

// newBase returns a base without memory. With planning, its memory is only counted.
func newBase(cfg *model.Config, opts Options, planning bool) *base {
	b := &base{opts: opts, cfg: cfg, pool: opts.Pool, memory: newAccount(planning), lent: make(chan struct{}, 1)}
	b.passes = passes{
		cfg: cfg, maxTokens: opts.MaxTokens,
		backbone: backbone{
			cfg: cfg, pool: opts.Pool, newArena: b.memory.newArena, recompute: min(opts.Recompute, cfg.NumLayers-1),
			rope: ropeTables{cfg: cfg}, local: ropeTables{cfg: cfg.LocalRope()},
		},
		head: head{
			cfg: cfg, pool: opts.Pool, newArena: b.memory.newArena, budget: logitsBudget,
			compare: comparison{width: opts.TeacherWidth, budget: teacherBudget},
		},
	}
	return b
}

// openBase returns a base without memory, and the model that it will read.
func openBase(opts Options) (*base, *model.Model, error) {
	if err := opts.check(); err != nil {
		return nil, nil, err
	}
	source, err := openModel(opts)
	if err != nil {
		return nil, nil, err
	}
	if err := checkReplay(source.Config, &opts); err != nil {
		return nil, nil, errors.Join(err, source.Close())
	}
	own := opts.Pool == nil
	if own {
		opts.Pool = kernel.NewPool(0)
	}
	b := newBase(source.Config, opts, false)
	b.ownPool = own
	return b, source, nil
}

// openShared opens a base of tenants.
func openShared(opts Options) (*base, error) {
	opts.LoRA = &engine.LoRASpec{} // each tenant has its own
	b, source, err := openBase(opts)
	if err != nil {
		return nil, err
	}
	err = errors.Join(b.takeFrozen(source), source.Close())
	if err == nil {
		err = b.takePasses()
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	b.touch()
	return b, nil
}

// planShared returns a base of tenants without memory, which is only counted.
func planShared(cfg *model.Config, opts Options) (*base, error) {
	opts.LoRA = &engine.LoRASpec{}
	if err := opts.check(); err != nil {
		return nil, err
	}
	b := newBase(cfg, opts, true)
	if err := b.takeFrozen(nil); err != nil {
		return nil, err
	}
	return b, b.takePasses()
}

// touch brings the memory of a pass into memory.
func (b *base) touch() {
	for _, a := range b.passes.arenas() {
		a.Touch(b.pool)
	}
}

// borrow waits until no other engine of the base computes, and lends e what a pass needs until giveBack.
func (e *Engine) borrow(ctx context.Context) (*passes, error) {
	if e.weights == nil {
		return nil, errClosed
	}
	select {
	case e.of.lent <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.passes.backbone.balance, e.passes.head.compare.teachers = e.balance, e.teachers
	if e.passes.packing.routes = (experience.Routes{}); e.opts.Replay {
		e.passes.packing.routes = e.cfg.Mixture.Routes()
	}
	return e.passes, nil
}

func (b *base) giveBack() { <-b.lent }

// Tenant implements engine.Base.
func (b *base) Tenant(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
	if err := b.enter(); err != nil {
		return nil, err
	}
	e, err := b.newTenant(lora, seed, false)
	if err == nil {
		err = b.settle(ctx, e)
	}
	if err != nil {
		b.leave()
		return nil, errors.Join(err, e.memory.arena.Free())
	}
	e.memory.arena.Touch(b.pool)
	return e, nil
}

// enter counts a tenant.
func (b *base) enter() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.tenants++
	return nil
}

func (b *base) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenants--
}

// newTenant returns an engine with memory for the adapter, its gradient and its moments.
func (b *base) newTenant(lora *engine.LoRASpec, seed uint64, planning bool) (*Engine, error) {
	opts, memory := b.opts, newAccount(planning)
	opts.LoRA, opts.Seed = lora, seed
	e := b.newEngine(opts, &memory)
	if lora == nil {
		return e, errors.New("cpu: a tenant trains an adapter, and none is given")
	}
	if err := e.takeTrained(flatSource{b.base, b.baseFlat}); err != nil {
		return e, err
	}
	return e, e.takeOptimizer()
}

// settle makes room for the low-rank updates of a tenant in the memory that all share.
func (b *base) settle(ctx context.Context, e *Engine) error {
	p, err := e.borrow(ctx)
	if err != nil {
		return err
	}
	defer b.giveBack()
	if err := errors.Join(p.backbone.widen(e.adapters.columns()), p.head.widen(e.adapters.headRank())); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.columns, b.rank = p.backbone.low, p.head.low
	return nil
}

// PlanTenant implements engine.Base. A tenant with a higher rank than those before it takes scratch, too.
func (b *base) PlanTenant(lora *engine.LoRASpec) ([]engine.MemoryPart, error) {
	e, err := b.newTenant(lora, 0, true)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	more, rank := max(0, e.adapters.columns()-b.columns), max(0, e.adapters.headRank()-b.rank)
	b.mu.Unlock()
	if more+rank == 0 {
		return e.memory.parts, nil
	}
	rows, train := b.opts.MaxTokens, !b.opts.ForwardOnly
	layers, err := takeLow(kernel.NewTally(), rows, more, train)
	if err != nil {
		return nil, err
	}
	head, err := takeLow(kernel.NewTally(), min(rows, b.passes.head.keeps(train)), rank, true)
	e.memory.note("scratch", layers.bytes()+head.bytes(),
		fmt.Sprintf("for updates of rank %d, which all adapters of the base share", e.adapters.Rank))
	return e.memory.parts, err
}

// Close implements engine.Base.
func (b *base) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenants > 0 {
		return fmt.Errorf("cpu: the base %s has %d open tenants: close them first", b.opts.ModelPath, b.tenants)
	}
	b.closed = true
	return b.close()
}

// close frees all memory but that of engines.
func (b *base) close() error {
	err := errors.Join(b.passes.backbone.work.free(), b.passes.head.free(), b.shared.release())
	b.shared = nil
	if b.ownPool {
		b.pool.Close()
	}
	return err
}
