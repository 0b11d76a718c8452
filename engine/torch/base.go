package torch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
)

// base is a frozen model in a worker of its own, which the adapters of its tenants share. A worker that has ended is
// replaced for the next tenant: tenants of the ended worker are lost.
type base struct {
	args *args
	spec engine.TrainerSpec
	cfg  *model.Config
	name string      // of the model in the worker
	turn *sync.Mutex // held while a tenant computes

	mu      sync.Mutex
	worker  *worker // nil if none could be started
	opened  int     // tenants so far
	tenants int     // that are open
	taken   int64   // bytes of the GPU that the base and its tenants have, by the plan; 0 on a CPU
	closed  bool
}

var _ engine.BaseSharer = (*plugin)(nil)

// OpenBase implements engine.BaseSharer. It starts the worker.
func (p *plugin) OpenBase(ctx context.Context, spec engine.TrainerSpec) (engine.Base, error) {
	b := &base{args: &p.args, spec: spec, name: "base", turn: new(sync.Mutex)}
	b.spec.Train, b.spec.LoRA = true, &engine.LoRASpec{} // each tenant has its own
	switch err := checkSpec(b.spec); {
	case err != nil:
		return nil, err
	case spec.Reference || spec.Init.Style != "":
		return nil, errors.New("torch: a base that adapters share has weights, and is its own reference")
	case spec.Place.Nodes*spec.Place.Ranks > 1:
		return nil, errors.New("torch: ranks that divide a model share no base of adapters: one rank does")
	}
	var err error
	if b.cfg, err = model.ReadConfig(spec.ModelPath); err != nil {
		return nil, err
	}
	parts, err := p.PlanBase(spec)
	if err != nil {
		return nil, err
	}
	b.taken = onDevice(parts)
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

// start starts a worker that has the frozen model.
func (b *base) start(ctx context.Context) (err error) {
	if b.worker, err = startWorker(ctx, b.args, &b.spec); err != nil {
		return err
	}
	if err := b.load(ctx); err != nil {
		return errors.Join(err, b.stop())
	}
	return nil
}

// stop ends the worker, if there is one.
func (b *base) stop() error {
	w := b.worker
	if b.worker = nil; w == nil {
		return nil
	}
	return w.close()
}

// load makes the worker load the model.
func (b *base) load(ctx context.Context) error {
	spec := b.spec
	spec.LoRA = nil
	f, err := prepare(filepath.Join(b.worker.dir, b.name), "", spec)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(f.model)
	if err != nil {
		return err
	}
	all := b.worker.common(b.args, path, &spec)
	all["compute"], all["recompute"] = b.worker.compute(b.args), b.args.recomputed(f.cfg, &spec)
	return b.newModel(b.name).open(ctx, b.name, message{nil, map[string]any{"spec": all}})
}

func (b *base) newModel(name string) *workerModel {
	return &workerModel{worker: b.worker, name: name, spec: b.spec, args: b.args, mu: b.turn}
}

// onDevice returns the bytes of a GPU that parts take as long as they are there.
func onDevice(parts []engine.MemoryPart) (sum int64) {
	for _, p := range parts {
		if p.Device != "" && !p.Passing {
			sum += p.Bytes
		}
	}
	return sum
}

// Tenant implements engine.Base.
func (b *base) Tenant(ctx context.Context, lora *engine.LoRASpec, seed uint64) (engine.Trainer, error) {
	if lora == nil {
		return nil, errors.New("torch: a tenant trains an adapter, and none is given")
	}
	parts, err := b.PlanTenant(lora)
	if err != nil {
		return nil, err
	}
	e, err := b.enter(ctx, onDevice(parts))
	if err != nil {
		return nil, err
	}
	e.spec.LoRA, e.spec.Seed, e.base = lora, seed, b.name
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.load(context.WithoutCancel(ctx)); err != nil { // see ask
		return nil, errors.Join(err, e.drop(), e.release())
	}
	return e, nil
}

// enter counts a tenant that takes so many bytes of a GPU, and gives it a model of a worker that lives.
func (b *base) enter(ctx context.Context, bytes int64) (*workerModel, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.worker == nil || b.worker.hasEnded() {
		if err := errors.Join(b.stop(), b.start(ctx)); err != nil {
			return nil, err
		}
	}
	b.opened++
	b.tenants++
	b.taken += bytes
	e := b.newModel(fmt.Sprintf("model%d", b.opened))
	e.release = func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.tenants--
		b.taken -= bytes
		return nil
	}
	return e, nil
}

// PlanTenant implements engine.Base. What is free on a GPU was asked before the base was opened.
func (b *base) PlanTenant(lora *engine.LoRASpec) ([]engine.MemoryPart, error) {
	spec := b.spec
	spec.LoRA = lora
	f := newFootprint(b.cfg, spec, b.args)
	if f.free > 0 {
		b.mu.Lock()
		f.free = max(1, f.free-b.taken)
		b.mu.Unlock()
	}
	err := f.adapter()
	return f.parts, err
}

// PlanBase implements engine.BaseSharer.
func (p *plugin) PlanBase(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	cfg, err := model.ReadConfig(spec.ModelPath)
	if err != nil {
		return nil, err
	}
	spec.Train, spec.LoRA = true, &engine.LoRASpec{}
	f := newFootprint(cfg, spec, &p.args)
	f.process()
	f.weights()
	f.step()
	return f.parts, nil
}

// Close implements engine.Base. The worker ends.
func (b *base) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil
	case b.tenants > 0:
		return fmt.Errorf("torch: the base %s has %d open tenants: close them first", b.spec.ModelPath, b.tenants)
	}
	b.closed = true
	return b.stop()
}
