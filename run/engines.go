package run

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/weights"
)

// engines are the plug-ins that open a stage's models. A stage builds what its mode asks for: a process that only samples needs no
// engine that trains.
type engines struct {
	trainer trinity.TrainerOpener // of policy, critic and teachers; nil where nothing is trained
	sampler trinity.SamplerOpener // nil where nothing is sampled
	way     weights.Way           // from one to the other; nil unless one process has both
}

func openers(cfg *config.Settled) (e engines, err error) {
	if cfg.Trains {
		if e.trainer, err = registry.Trainers.Build(cfg.Engines.Train, cfg.Trainer.TrainerArgs); err != nil {
			return e, cfg.At("trainer.trainer_type", err.Error(), "")
		}
	}
	if cfg.Samples {
		if e.sampler, err = registry.Samplers.Build(cfg.Engines.Sample, cfg.Explorer.RolloutModel.EngineArgs); err != nil {
			return e, cfg.At("explorer.rollout_model.engine_type", err.Error(), "")
		}
	}
	if cfg.Together {
		if e.way, err = weights.Ways.Build(cfg.Engines.Weights); err != nil {
			return e, cfg.At("synchronizer.sync_method", err.Error(), "")
		}
	}
	return e, nil
}

// specs are what a stage asks of its engines.
type specs struct {
	train   trinity.EngineSpec // nothing is trained unless its Train is set
	sample  trinity.SamplerSpec
	samples bool
}

// specs returns what a stage asks of its engines, but for decoding text.
func (cfg *Settled) specs(train, sample bool) specs {
	init := trinity.InitSpec{Seed: uint64(cfg.InitSeed), Style: cfg.Model.Init.Style}
	lora, length := loraSpec(cfg.Model.LoraConfigs), value(0, cfg.Model.MaxModelLen)
	s := specs{samples: sample}
	if train {
		s.train = trinity.EngineSpec{
			ModelPath: cfg.modelPath, Init: init, LoRA: lora, Seed: uint64(cfg.Seed), Optimizer: cfg.Algorithm.Optimizer.Spec(),
			Train: true, Reference: cfg.Method.Reference, MicroTokens: cfg.Batch.MicroTokens, MaxModelLen: length,
			Ahead: cfg.publishInterval() > 1 || handovers[cfg.Synchronizer.SyncStyle] == weights.WhenAsked,
		}
		if cfg.Method.Compares {
			s.train.Teachers = cfg.teacherPaths()
		}
	}
	if sample {
		s.sample = trinity.SamplerSpec{
			ModelPath: cfg.modelPath, Init: init, LoRA: lora, Quantization: cfg.Explorer.RolloutModel.Quantization,
			MaxSequences: cfg.Batch.Sequences, MaxModelLen: length, Shared: train && cfg.engines.way.Shares(),
		}
		for _, l := range cfg.Model.SampledAdapters() {
			s.sample.Adapters = append(s.sample.Adapters, l.Path)
		}
	}
	return s
}

// plan returns the memory that the engine and the sampler take, in the order in which they take it; nil if one of them cannot tell.
func (e *engines) plan(s specs) ([]trinity.MemoryPart, error) {
	var all []trinity.MemoryPart
	if s.train.Train {
		parts, err := e.trainer.PlanMemory(s.train)
		if err != nil || parts == nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	if s.samples {
		parts, err := e.sampler.PlanMemory(s.sample)
		if err != nil || parts == nil {
			return nil, err
		}
		all = append(all, parts...)
	}
	return all, nil
}

// lasting returns the parts with what passing ones need beyond what is taken after them, which is often nothing.
func lasting(parts []trinity.MemoryPart) []trinity.MemoryPart {
	parts = slices.Clone(parts)
	var later int64
	for i, p := range slices.Backward(parts) {
		if p.Passing {
			parts[i].Bytes = max(0, p.Bytes-later)
		} else {
			later += p.Bytes
		}
	}
	return parts
}

// planned is the sum of the memory of a model that stands alone.
func planned(parts []trinity.MemoryPart) (bytes int64) {
	for _, p := range lasting(parts) {
		bytes += p.Bytes
	}
	return bytes
}

// open loads the weights: the engine's first, for the sampler may share them.
func (e *engines) open(ctx context.Context, s specs) (engine trinity.Engine, sampler trinity.Sampler, err error) {
	if s.train.Train {
		if engine, err = e.trainer.OpenTrainer(ctx, s.train); err != nil {
			return nil, nil, fmt.Errorf("opening model %s: %w", s.train.ModelPath, err)
		}
	}
	if s.samples {
		if s.sample.Shared {
			s.sample.Beside = engine
		}
		if sampler, err = e.sampler.OpenSampler(ctx, s.sample); err != nil {
			return engine, nil, fmt.Errorf("opening model %s: %w", s.sample.ModelPath, err)
		}
	}
	return engine, sampler, nil
}

// frozen returns the plug-in that opens reward models: the one that trains or, if nothing is
// trained, the one with the sampler's name.
func (e *engines) frozen(s *Settled) (trinity.TrainerOpener, error) {
	if e.trainer != nil {
		return e.trainer, nil
	}
	return registry.Trainers.Build(s.Engines.Sample)
}
