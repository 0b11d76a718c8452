// Package place says where the engines of a stage run and what they take: it builds them, divides the machines among
// their programs, and forecasts memory and time.
package place

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/weights"
)

// Engines are the plug-ins that open a stage's models. A stage builds those that its mode needs: a
// process that only samples needs no trainer.
type Engines struct {
	Trainer engine.TrainerOpener // of policy, critic and teachers; nil if the mode trains nothing
	Sampler engine.SamplerOpener // nil if the mode samples nothing
	Way     weights.Way          // of the weights to the sampler; nil unless one process has both

	Programs *programs
}

// NewEngines builds the plug-ins for the mode.
func NewEngines(cfg *config.Settled) (e Engines, err error) {
	if cfg.Trains {
		if e.Trainer, err = registry.Trainers.Build(cfg.Engines.Train, cfg.Trainer.TrainerArgs); err != nil {
			return e, cfg.At("trainer.trainer_type", err.Error(), "")
		}
	}
	if cfg.Samples {
		if e.Sampler, err = registry.Samplers.Build(cfg.Engines.Sample, cfg.Explorer.RolloutModel.EngineArgs); err != nil {
			return e, cfg.At("explorer.rollout_model.engine_type", err.Error(), "")
		}
	}
	if cfg.Together {
		if e.Way, err = weights.Ways.Build(cfg.Engines.Weights); err != nil {
			return e, cfg.At("synchronizer.sync_method", err.Error(), "")
		}
	}
	e.Programs, err = programsOf(cfg, &e)
	return e, err
}

// Specs tell the engines of a stage what to open.
type Specs struct {
	Train   engine.TrainerSpec // its Train says whether there is anything to train
	Sample  engine.SamplerSpec
	Samples bool
}

// RoundsVersions reports whether the files of versions have bf16: all servers that load them are started with
// it, so that they lose nothing that the servers would keep.
func (e *Engines) RoundsVersions(s *config.Settled) bool {
	return s.Explorer.RolloutModel.Dtype == "bfloat16" && len(serversOf(s, e)) > 0
}

// plan returns the memory that the engine and the sampler take, in the order in which they take it.
// It returns nil if one of them cannot tell.
func (e *Engines) plan(s Specs) ([]engine.MemoryPart, error) {
	all := []engine.MemoryPart{}
	if s.Train.Train {
		parts, err := e.PlanTrainer(s.Train)
		if err != nil || parts == nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	if s.Samples {
		parts, err := e.Sampler.PlanMemory(s.Sample)
		if err != nil || parts == nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

// PlanTrainer returns the memory of an engine that the trainer opens. Programs on other machines take none of
// this one; their GPUs are taken to be like those here, if there are any.
func (e *Engines) PlanTrainer(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	parts, err := e.Trainer.PlanMemory(spec)
	_, programs := e.Trainer.(trainerPrograms)
	if !programs || e.Programs.launcher == nil || e.Programs.launcher.Reach() == "" {
		return parts, err
	}
	for i := range parts {
		parts[i].Device = cmp.Or(parts[i].Device, "each machine")
	}
	return parts, err
}

// lasting returns the parts as they add up. A passing part is free again before the engine takes
// the parts after it, so it only counts with what it needs beyond them, which is often nothing.
func lasting(parts []engine.MemoryPart) []engine.MemoryPart {
	parts = slices.Clone(parts)
	later := map[string]int64{} // by device
	for i, p := range slices.Backward(parts) {
		if p.Passing {
			parts[i].Bytes = max(0, p.Bytes-later[p.Device])
		} else {
			later[p.Device] += p.Bytes
		}
	}
	return parts
}

// Planned returns the memory of a model that stands alone, one part for each device.
func Planned(parts []engine.MemoryPart, kind, why string) (plans []config.MemoryPlan) {
	for _, p := range lasting(parts) {
		i := slices.IndexFunc(plans, func(m config.MemoryPlan) bool { return m.Device == p.Device })
		if i < 0 {
			i, plans = len(plans), append(plans, config.MemoryPlan{Kind: kind, Why: why, Device: p.Device, Free: p.Free})
		}
		plans[i].Bytes += p.Bytes
	}
	return plans
}

// TakeTurns reports whether the servers have the trainer's GPUs while they sample.
func (e *Engines) TakeTurns() bool { return e.Programs.Sample.Beside != "" }

// Open loads the weights. The engine comes first, because the sampler may share its weights.
func (e *Engines) Open(ctx context.Context, s Specs) (opened engine.Trainer, sampler trinity.Sampler, err error) {
	if e.Programs.Unknown != nil {
		return nil, nil, e.Programs.Unknown
	}
	if s.Train.Train {
		if opened, err = e.Trainer.OpenTrainer(ctx, s.Train); err != nil {
			return nil, nil, fmt.Errorf("opening model %s: %w", s.Train.ModelPath, err)
		}
	}
	if s.Samples {
		if s.Sample.Shared {
			s.Sample.Beside = opened
		}
		if sampler, err = e.Sampler.OpenSampler(ctx, s.Sample); err != nil {
			return opened, nil, fmt.Errorf("opening model %s: %w", s.Sample.ModelPath, err)
		}
	}
	return opened, sampler, nil
}

// Frozen returns the plug-in that opens reward models: the one that trains or, if nothing is
// trained, the one with the sampler's name.
func (e *Engines) Frozen(s *config.Settled) (engine.TrainerOpener, error) {
	if e.Trainer != nil {
		return e.Trainer, nil
	}
	return registry.Trainers.Build(s.Engines.Sample)
}

// CriticSpec returns how the engine opens the critic beside the policy. It trains all weights of
// the critic, even if the policy is an adapter: a value head on frozen features would be a poor
// critic. Nobody samples or publishes the critic, so a small adapter has no advantage.
func CriticSpec(policy engine.TrainerSpec, path string, optimizer engine.OptimizerSpec) engine.TrainerSpec {
	return engine.TrainerSpec{
		ModelPath: path, Head: engine.ValueHead, Init: policy.Init, Seed: policy.Seed, Optimizer: optimizer,
		Train: true, Recompute: policy.Recompute, MicroTokens: policy.MicroTokens, MaxModelLen: policy.MaxModelLen,
		Place: policy.Place, Strategy: policy.Strategy, Tensor: policy.Tensor,
		ParamOffload: policy.ParamOffload, OptimizerOffload: policy.OptimizerOffload,
	}
}
