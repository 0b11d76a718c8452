package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/weights"
)

// engines are the plug-ins that open a stage's models. A stage builds those that its mode needs: a
// process that only samples needs no trainer.
type engines struct {
	trainer engine.TrainerOpener // of policy, critic and teachers; nil if the mode trains nothing
	sampler engine.SamplerOpener // nil if the mode samples nothing
	way     weights.Way          // of the weights to the sampler; nil unless one process has both

	programs *programs
}

// openers builds the plug-ins for the mode.
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
	e.programs, err = programsOf(cfg, &e)
	return e, err
}

// specs tell the engines of a stage what to open.
type specs struct {
	train   engine.TrainerSpec // its Train says whether there is anything to train
	sample  engine.SamplerSpec
	samples bool
}

// specs returns what the engines open, without the function that decodes text.
func (s *Settled) specs(train, sample bool) specs {
	init := engine.InitSpec{Seed: uint64(s.InitSeed), Style: s.Model.Init.Style}
	lora, length := loraSpec(s.Model.LoraConfigs), config.Value(0, s.Model.MaxModelLen)
	all := specs{samples: sample}
	if train {
		all.train = engine.TrainerSpec{
			ModelPath: s.modelPath, Init: init, LoRA: lora, Seed: uint64(s.Seed), Optimizer: s.Algorithm.Optimizer.Spec(),
			Train: true, Reference: s.Method.Reference, MicroTokens: s.Batch.MicroTokens, MaxModelLen: length, Dir: s.Buffer.CacheDir,
			Ahead: trainsAhead(s), Strategy: s.Trainer.TrainerStrategy, Tensor: s.Trainer.Megatron.TensorModelParallelSize,
			Place: s.engines.programs.train,
		}
		all.train.ParamOffload, all.train.OptimizerOffload = s.Trainer.Offload(config.ActorTree)
		all.train.ReferenceOffload, _ = s.Trainer.Offload(config.ReferenceTree)
		if s.engines.programs.sample.Beside != "" { // the servers have the GPUs while they sample
			all.train.ParamOffload, all.train.OptimizerOffload, all.train.ReferenceOffload = true, true, true
		}
		if sample && s.engines.roundsVersions(s) {
			all.train.PublishDType = "bf16"
		}
		if s.Method.Scores {
			all.train.Head = engine.ScoreHead
		}
		if s.Method.Compares {
			all.train.Teachers = s.teacherPaths()
		}
	}
	if sample {
		all.sample = engine.SamplerSpec{
			ModelPath: s.modelPath, Init: init, LoRA: lora, Quantization: s.Explorer.RolloutModel.Quantization,
			MaxSequences: s.Batch.Sequences, MaxModelLen: length, Shared: train && s.engines.way.Shares(),
			KeepAcrossVersions: s.Explorer.RolloutModel.KvAcrossVersions == "keep", Servers: s.Explorer.RolloutModel.BaseUrls,
			Key: s.Explorer.RolloutModel.APIKey, Patience: wait.Seconds(s.Explorer.MaxTimeout), Record: s.Explores || s.Records(),
			Follows: train || s.Mode == "explore" && follows(s), Place: s.engines.programs.sample,
			Start: serverSpec(&s.Explorer.RolloutModel), Bucket: int64(s.Explorer.RolloutModel.WeightSyncBufferSize) << 20,
		}
		for _, l := range s.Model.SampledAdapters() {
			all.sample.Adapters = append(all.sample.Adapters, l.Path)
		}
	}
	return all
}

// roundsVersions reports whether the files of versions have bf16: all servers that load them are started with
// it, so that they lose nothing that the servers would keep.
func (e *engines) roundsVersions(s *Settled) bool {
	return s.Explorer.RolloutModel.Dtype == "bfloat16" && len(serversOf(s.Settled, e)) > 0
}

// trainsAhead reports whether the engine may train on before its sampler has the newest version: there
// are steps between versions, the explorer asks for versions, or an evaluation holds the one in use. A
// version that is nowhere else may be asked for again until the next one.
func trainsAhead(s *Settled) bool {
	if _, sends := s.engines.way.(weights.Sending); sends {
		return true
	}
	evaluates := s.Explores && len(s.Buffer.ExplorerInput.EvalTasksets) > 0
	switch handovers[s.Synchronizer.SyncStyle] {
	case weights.WhenAsked:
		return true
	case weights.AtOnce:
		return s.publishInterval() > 1 || evaluates
	}
	return s.publishInterval() > 1
}

// plan returns the memory that the engine and the sampler take, in the order in which they take it.
// It returns nil if one of them cannot tell.
func (e *engines) plan(s specs) ([]engine.MemoryPart, error) {
	all := []engine.MemoryPart{}
	if s.train.Train {
		parts, err := e.planTrainer(s.train)
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

// planTrainer returns the memory of an engine that the trainer opens. Programs on other machines take none of
// this one; their GPUs are taken to be like those here, if there are any.
func (e *engines) planTrainer(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	parts, err := e.trainer.PlanMemory(spec)
	_, programs := e.trainer.(trainerPrograms)
	if !programs || e.programs.launcher == nil || e.programs.launcher.Reach() == "" {
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

// planned returns the memory of a model that stands alone, one part for each device.
func planned(parts []engine.MemoryPart, kind, why string) (plans []config.MemoryPlan) {
	for _, p := range lasting(parts) {
		i := slices.IndexFunc(plans, func(m config.MemoryPlan) bool { return m.Device == p.Device })
		if i < 0 {
			i, plans = len(plans), append(plans, config.MemoryPlan{Kind: kind, Why: why, Device: p.Device, Free: p.Free})
		}
		plans[i].Bytes += p.Bytes
	}
	return plans
}

// open loads the weights. The engine comes first, because the sampler may share its weights.
func (e *engines) open(ctx context.Context, s specs) (opened engine.Trainer, sampler trinity.Sampler, err error) {
	if e.programs.unknown != nil {
		return nil, nil, e.programs.unknown
	}
	if s.train.Train {
		if opened, err = e.trainer.OpenTrainer(ctx, s.train); err != nil {
			return nil, nil, fmt.Errorf("opening model %s: %w", s.train.ModelPath, err)
		}
	}
	if s.samples {
		if s.sample.Shared {
			s.sample.Beside = opened
		}
		if sampler, err = e.sampler.OpenSampler(ctx, s.sample); err != nil {
			return opened, nil, fmt.Errorf("opening model %s: %w", s.sample.ModelPath, err)
		}
	}
	return opened, sampler, nil
}

// frozen returns the plug-in that opens reward models: the one that trains or, if nothing is
// trained, the one with the sampler's name.
func (e *engines) frozen(s *Settled) (engine.TrainerOpener, error) {
	if e.trainer != nil {
		return e.trainer, nil
	}
	return registry.Trainers.Build(s.Engines.Sample)
}
