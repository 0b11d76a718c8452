// Package engine has what an engine implements: a trainer, a sampler, or both. An engine is a folder beside
// this file, such as engine/cpu.
package engine

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
)

// Trainer owns the weights that are trained, or computes with frozen ones. An engine may do more:
// [Publisher], and Cutter and Distiller in internal/trainer.
type Trainer interface {
	// Forward returns the streams of every experience, without gradient.
	Forward(ctx context.Context, b *trinity.Batch, want trinity.Streams) ([]trinity.TokenStats, error)
	// Reference is Forward under the frozen reference weights.
	Reference(ctx context.Context, b *trinity.Batch) ([]trinity.TokenStats, error)
	// ForwardBackward adds the gradient of the loss over the batch to the engine's gradient.
	ForwardBackward(ctx context.Context, b *trinity.Batch, loss trinity.Loss) (trinity.Metrics, error)
	// OptimStep applies the gradient and clears it. Metrics: grad_norm (before clipping), lr.
	OptimStep(ctx context.Context, p trinity.OptimParams) (trinity.Metrics, error)
	// SaveState writes into dir what a resumed run needs for the same bits: master weights, moments, the
	// gradient since the last OptimStep, counters, and the version that a Publisher has offered.
	SaveState(ctx context.Context, dir string) error
	// LoadState reads what SaveState wrote. A sampler that shares memory with the engine then has the
	// offered version.
	LoadState(ctx context.Context, dir string) error
	// SaveModel writes a model directory (or a PEFT adapter) that transformers loads.
	SaveModel(ctx context.Context, dir string) error
	Close() error
}

// Publisher is a Trainer that keeps the weights of the last version that it offered while it trains
// newer ones. A run needs one if the trainer continues before the sampler has taken a version, or
// if a checkpoint lies between two versions.
type Publisher interface {
	Trainer
	// Offer makes the current weights a version. It replaces the version offered before.
	Offer(ctx context.Context, version int64) error
	// Adopt gives the offered version to the sampler that was opened beside the engine, and returns
	// its number. Another goroutine may train meanwhile. Without such a sampler it only returns the
	// number.
	Adopt(ctx context.Context) (version int64, err error)
	// SavePublished is SaveModel of the offered version, in TrainerSpec.PublishDType.
	SavePublished(ctx context.Context, dir string) error
}

// VersionWriter is a Trainer that writes a version of the weights in TrainerSpec.PublishDType.
type VersionWriter interface {
	Trainer
	// SaveVersion is SaveModel in that type.
	SaveVersion(ctx context.Context, dir string) error
}

// Discarder is a Trainer that can drop the gradient since the last OptimStep.
type Discarder interface {
	Trainer
	Discard(ctx context.Context) error
}

// BaseSharer is a [TrainerOpener] that opens a frozen base once, for many adapters.
type BaseSharer interface {
	TrainerOpener
	// OpenBase loads the base of spec. It ignores LoRA and Seed, which Tenant gets for each adapter.
	OpenBase(ctx context.Context, spec TrainerSpec) (Base, error)
	// PlanBase is PlanMemory for OpenBase.
	PlanBase(spec TrainerSpec) ([]MemoryPart, error)
}

// Base is a frozen model with the memory of a pass, which trainers of its adapters, its tenants, use in turn. A tenant
// owns its adapter, gradient and moments alone.
type Base interface {
	// Tenant opens a trainer of an adapter. It has the bits of the one that OpenTrainer would open, whatever other
	// tenants do. It may wait until a pass of another tenant ends.
	Tenant(ctx context.Context, lora *LoRASpec, seed uint64) (Trainer, error)
	// PlanTenant returns the memory that Tenant would take now.
	PlanTenant(lora *LoRASpec) ([]MemoryPart, error)
	// Close frees the base. It is an error while tenants are open.
	Close() error
}

// StateReader is a [TrainerOpener] that writes the model of a state without loading the optimizer's tensors.
type StateReader interface {
	TrainerOpener
	// WriteModel writes to out what SaveModel wrote when the state in dir was saved. Of spec it reads
	// ModelPath, of which it needs the config alone, LoRA.BaseModelName, and whether Head is ValueHead.
	WriteModel(spec TrainerSpec, dir, out string) error
}

// CheckText is [trinity.Experience.Check] for an engine that computes text alone. An experience with
// images is an error, because the engine would take their placeholders for text.
func CheckText(e *trinity.Experience) error {
	if len(e.Images) > 0 {
		return fmt.Errorf("experience %s has %d images, and this engine computes text alone: leave it out", e.ID, len(e.Images))
	}
	return e.Check()
}

// CheckPrompt is CheckText of a prompt, for a sampler or a server called who that reads text alone.
func CheckPrompt(p *trinity.Prompt, who string) error {
	if n := len(p.Images); n > 0 {
		return fmt.Errorf("the prompt has %d images, and %s reads text alone: set explorer.rollout_model.engine_type to vllm", n, who)
	}
	return nil
}
