package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// adapters opens trainers of the adapters of a model: tenants of one base, or engines of their own where the engine shares none.
type adapters struct {
	opener engine.TrainerOpener
	spec   engine.TrainerSpec // without an adapter
	base   engine.Base        // nil if the engine shares none
}

// newAdapters opens the base of spec, if the engine shares one and there is memory for it. Its plan is nil if it shares none.
func newAdapters(ctx context.Context, opener engine.TrainerOpener, spec engine.TrainerSpec) (
	a *adapters, plan []engine.MemoryPart, err error,
) {
	a = &adapters{opener: opener, spec: spec}
	sharer, ok := opener.(engine.BaseSharer)
	if !ok {
		return a, nil, nil
	}
	if plan, err = sharer.PlanBase(spec); err != nil {
		return nil, nil, err
	}
	if err := fits("it", plan, "lower --max-model-len, or serve a smaller model"); err != nil {
		return nil, nil, err
	}
	a.base, err = sharer.OpenBase(ctx, spec)
	return a, plan, err
}

// plan returns the memory that a model with this adapter takes; nil if the engine cannot tell.
func (a *adapters) plan(lora *engine.LoRASpec) ([]engine.MemoryPart, error) {
	if a.base != nil {
		return a.base.PlanTenant(lora)
	}
	spec := a.spec
	spec.LoRA = lora
	return a.opener.PlanMemory(spec)
}

// open opens a trainer, if there is memory for it.
func (a *adapters) open(ctx context.Context, lora *engine.LoRASpec, seed uint64) (trainer engine.Trainer, err error) {
	plan, err := a.plan(lora)
	if err != nil {
		return nil, &trinity.EngineError{Err: err}
	}
	if err := fits(fmt.Sprintf("a model of rank %d", lora.LoraRank), plan, "end a session, or lower the rank"); err != nil {
		return nil, err
	}
	if a.base != nil {
		trainer, err = a.base.Tenant(ctx, lora, seed)
	} else {
		spec := a.spec
		spec.LoRA, spec.Seed = lora, seed
		trainer, err = a.opener.OpenTrainer(ctx, spec)
	}
	if err != nil {
		return nil, &trinity.EngineError{Err: err}
	}
	return trainer, nil
}

// close frees the base.
func (a *adapters) close() error {
	if a.base == nil {
		return nil
	}
	return a.base.Close()
}

// available returns the bytes of memory that this machine can give; 0 is unknown.
var available = func() int64 { return int64(place.Machine().Available) }

// fits returns an error if parts need more memory than a device has free. advice says what would help.
func fits(what string, parts []engine.MemoryPart, advice string) error {
	for _, p := range place.Planned(parts, "", "") {
		of, free := p.Device, p.Free
		if of == "" {
			of, free = "this machine", available()
		}
		if free > 0 && p.Bytes > free {
			return fmt.Errorf("%s needs about %s of the memory of %s, and %s are free: %s", what, config.Size(p.Bytes), of, config.Size(free),
				advice)
		}
	}
	return nil
}

// usualRank is the rank of the SDK's create_lora_training_client.
const usualRank = 32

// describe says what a model takes: its parts, and a further adapter of the usual rank.
func (a *adapters) describe(name string, shared []engine.MemoryPart, say func(string)) error {
	each, err := a.plan(&engine.LoRASpec{LoraRank: usualRank, LoraAlpha: usualRank, TargetModules: tinker.Modules(true, true, true)})
	if err != nil {
		return err
	}
	for _, p := range slices.DeleteFunc(slices.Clone(shared), func(p engine.MemoryPart) bool { return p.Passing }) {
		say(fmt.Sprintf("memory of %s: %s, %s: %s", name, p.Kind, config.Size(p.Bytes), p.Why))
	}
	for _, p := range place.Planned(shared, "", "") {
		say(fmt.Sprintf("memory of %s: all of that, %s of %s", name, config.Size(p.Bytes), cmp.Or(p.Device, "this machine")))
	}
	for _, p := range place.Planned(each, "", "") {
		say(fmt.Sprintf("memory of %s: each model of rank %d, %s of %s", name, usualRank, config.Size(p.Bytes), cmp.Or(p.Device, "this machine")))
	}
	return nil
}
