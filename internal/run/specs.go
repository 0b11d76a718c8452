package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/weights"
)

// specs returns what the engines open, without the function that decodes text.
func (s *Settled) specs(train, sample bool) place.Specs {
	init := engine.InitSpec{Seed: uint64(s.InitSeed), Style: s.Model.Init.Style}
	lora, length := loraSpec(s.Model.LoraConfigs), config.Value(0, s.Model.MaxModelLen)
	all := place.Specs{Samples: sample}
	if train {
		all.Train = engine.TrainerSpec{
			ModelPath: s.modelPath, Init: init, LoRA: lora, Seed: uint64(s.Seed), Optimizer: s.Algorithm.Optimizer.Spec(),
			Train: true, Reference: s.Method.Reference, MicroTokens: s.Batch.MicroTokens, MaxModelLen: length, Dir: s.Buffer.CacheDir,
			Ahead: trainsAhead(s), Strategy: s.Trainer.TrainerStrategy, Tensor: s.Trainer.Megatron.TensorModelParallelSize,
			Place: s.engines.Programs.Train,
		}
		all.Train.ParamOffload, all.Train.OptimizerOffload = s.Trainer.Offload(config.ActorTree)
		all.Train.ReferenceOffload, _ = s.Trainer.Offload(config.ReferenceTree)
		if s.engines.TakeTurns() { // the servers have the GPUs while they sample
			all.Train.ParamOffload, all.Train.OptimizerOffload, all.Train.ReferenceOffload = true, true, true
		}
		if sample && s.engines.RoundsVersions(s.Settled) {
			all.Train.PublishDType = "bf16"
		}
		if s.Method.Scores {
			all.Train.Head = engine.ScoreHead
		}
		if s.Method.Compares {
			all.Train.Teachers = s.teacherPaths()
		}
	}
	if sample {
		all.Sample = engine.SamplerSpec{
			ModelPath: s.modelPath, Init: init, LoRA: lora, Quantization: s.Explorer.RolloutModel.Quantization,
			MaxSequences: s.Batch.Sequences, MaxModelLen: length, Shared: train && s.engines.Way.Shares(),
			KeepAcrossVersions: s.Explorer.RolloutModel.KvAcrossVersions == "keep", Servers: s.Explorer.RolloutModel.BaseUrls,
			Key: s.Explorer.RolloutModel.APIKey, Patience: wait.Seconds(s.Explorer.MaxTimeout), Record: s.Explores || s.Records(),
			Follows: train || s.Mode == "explore" && follows(s.Settled), Place: s.engines.Programs.Sample,
			Start: place.ServerSpec(&s.Explorer.RolloutModel), Bucket: int64(s.Explorer.RolloutModel.WeightSyncBufferSize) << 20,
		}
		for _, l := range s.Model.SampledAdapters() {
			all.Sample.Adapters = append(all.Sample.Adapters, l.Path)
		}
	}
	return all
}

// trainsAhead reports whether the engine may train on before its sampler has the newest version: there
// are steps between versions, the explorer asks for versions, or an evaluation holds the one in use. A
// version that is nowhere else may be asked for again until the next one.
func trainsAhead(s *Settled) bool {
	if _, sends := s.engines.Way.(weights.Sending); sends {
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

// forecast says what the engines, the critic and the frozen models will take of a machine with so many bytes of memory
// available.
func (s *Settled) forecast(spec place.Specs, available int64) (*place.Forecast, error) {
	path := cmp.Or(spec.Train.ModelPath, spec.Sample.ModelPath)
	m, err := model.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	if n := *s.Model.MaxModelLen; n > m.MaxPositions {
		return nil, s.At(place.ModelLenKey, fmt.Sprintf("is %d, but model %s has positions for %d tokens", n, path, m.MaxPositions),
			"lower it, or max_prompt_tokens and max_response_tokens")
	}
	if err := checkAdapters(m, s.Model.LoraConfigs); err != nil {
		return nil, err
	}
	f := &place.Forecast{
		Config: s.Settled, Engines: &s.engines, Model: m, Spec: spec, Critic: s.criticPath, Trace: record.TraceMemory(s.Settled), Available: available,
	}
	if s.criticPath != "" {
		if err := s.checkCritic(m); err != nil {
			return nil, err
		}
	}
	beside := func(plan func() ([]config.MemoryPlan, error)) {
		if err == nil {
			var plans []config.MemoryPlan
			plans, err = plan()
			f.Beside = append(f.Beside, plans...)
		}
	}
	if spec.Samples {
		beside(s.rewardMemory)
		beside(asking{s}.memory)
	}
	if spec.Train.Train {
		beside(s.teacherMemory)
	}
	if err != nil {
		return nil, err
	}
	return f, f.Plan()
}

// fits returns an error about a stage that needs more memory than is available. The error begins with whose memory it is.
func (s *Settled) fits(whose string, train, sample bool) error {
	f, err := s.forecast(s.specs(train, sample), int64(place.Machine().Available))
	if err != nil {
		return err
	}
	why, err := f.DoesNotFit()
	if err == nil && why != "" {
		err = errors.New(whose + why)
	}
	return err
}

// programs returns the programs that the engines of the stage start.
func (s *Settled) programs() []engine.Program {
	spec := s.specs(s.Trains, s.Samples)
	spec.Train.ModelPath = cmp.Or(spec.Train.ModelPath, s.Model.ModelPath) // of a model that is not here yet
	spec.Sample.ModelPath = cmp.Or(spec.Sample.ModelPath, s.Model.ModelPath)
	return s.engines.ProgramsOf(spec)
}

// checkInterpreters returns an error if a program of the stage that starts on this machine lacks its interpreter.
func (s *Settled) checkInterpreters(ctx context.Context) error {
	return s.engines.Programs.CheckInterpreters(ctx, s.programs())
}

// RenderPrograms returns what the launcher would run for the programs of a configuration, stage by
// stage. It is "" if the run has none.
func RenderPrograms(cfg *config.Config) (string, error) {
	var text strings.Builder
	for _, settled := range cfg.Settled() {
		s, err := Resolve(settled)
		if err != nil {
			return "", err
		}
		rendered, err := s.engines.Programs.Render(s.Name, s.programs())
		if err != nil {
			return "", err
		}
		text.WriteString(rendered)
	}
	return text.String(), nil
}

// programFacts describes the programs of the stage, and what keeps them from starting.
func (s *Settled) programFacts() []string {
	lines := s.engines.Programs.Describe(s.programs())
	problems := []error{s.engines.Programs.Unknown, s.checkInterpreters(context.Background())}
	if !s.IsStage() { // which may start from another model
		problems = append(problems, s.engines.CheckServedModel(s.Settled, s.modelPath))
	}
	for _, err := range problems {
		if err != nil {
			lines = append(lines, err.Error()+": the run cannot start")
		}
	}
	return lines
}
