// Package place says where the engines of a stage run and what they take: it builds them, divides the machines among
// their programs, and forecasts memory and time.
package place

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/launcher"
	"github.com/trinity-go/trinity/model"
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
	Train   engine.TrainerSpec   // its Train says whether there is anything to train
	Critic  engine.OptimizerSpec // of a critic beside the policy
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
		Place: policy.Place, Layout: policy.Layout, Compile: policy.Compile,
		Offload: engine.Offload{ParamOffload: policy.ParamOffload, OptimizerOffload: policy.OptimizerOffload}, Images: policy.Images,
	}
}

// LauncherOf returns the launcher of a configuration.
func LauncherOf(cfg *config.Config) (launcher.Launcher, error) { return launcherOf(cfg.Settled()[0]) }

// Render returns what the launcher would run for the programs of a stage.
func (p *programs) Render(stage string, all []engine.Program) (string, error) {
	var text strings.Builder
	for _, one := range all {
		g, err := cluster.Request(one, "http://DRIVER", "")
		if err != nil {
			return "", err
		}
		rendered, err := p.launcher.Render(g)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&text, "# %s: %s; machines: %d, GPUs of each: %d; it runs %s\n%s\n", stage, one.Name, g.Nodes, g.GPUs,
			strings.Join(one.Command, " "), strings.TrimRight(rendered, "\n"))
	}
	return text.String(), nil
}

// Describe describes the programs that the launcher starts, equal ones in one line.
func (p *programs) Describe(all []engine.Program) (lines []string) {
	for len(all) > 0 {
		one, n := all[0], 1
		for n < len(all) && slices.Equal(all[n].Command, one.Command) {
			n++
		}
		name := one.Name
		if n > 1 {
			name = fmt.Sprintf("%s to %s, %d equal programs", one.Name, all[n-1].Name, n)
		}
		lines = append(lines, fmt.Sprintf("%s: %s, machines: %d, GPUs of each: %d; %s", name, p.launcher.Describe(),
			max(1, one.Nodes), one.GPUs, strings.Join(one.Command, " ")))
		all = all[n:]
	}
	return lines
}

// ProgramsOf returns the programs that the engines start for specs.
func (e *Engines) ProgramsOf(spec Specs) (all []engine.Program) {
	if e.Programs.launcher == nil {
		return nil
	}
	if starter, ok := e.Trainer.(trainerPrograms); ok {
		all = starter.Programs(spec.Train)
	}
	if starter, ok := e.Sampler.(samplerPrograms); ok {
		all = append(all, starter.Programs(spec.Sample)...)
	}
	return all
}

// startsHere reports whether the programs start on this machine. Of other machines nothing is known before a
// program starts there.
func (p *programs) startsHere() bool { return p.launcher != nil && p.launcher.Reach() == "" }

// CheckServedModel returns an error if servers that start on this machine would find no weights in the
// model at a path. One that is told by load_format how to load it may need none.
func (e *Engines) CheckServedModel(cfg *config.Settled, path string) error {
	_, told := cfg.Explorer.RolloutModel.ExtraEngineArgs["load_format"]
	if told || path == "" || !e.Programs.startsHere() || len(serversOf(cfg, e)) == 0 {
		return nil
	}
	const (
		why  = "the servers that the run starts load a model directory with weights (safetensors)"
		hint = "trinity convert makes one of a GGUF file"
	)
	switch info, err := os.Stat(path); {
	case err != nil:
		return err
	case !info.IsDir():
		return cfg.At(checkpoint.ModelKey, fmt.Sprintf("%s is a file, and %s", path, why), hint)
	case !model.HasWeights(path):
		return cfg.At(checkpoint.ModelKey, fmt.Sprintf("%s has no weights, and %s", path, why), hint)
	}
	return nil
}

// interpreterTime is how long an interpreter may take to say which modules it has.
const interpreterTime = time.Minute

// missingModules prints those of the modules in its arguments that are not there. It imports none, which
// would take seconds. The working directory is no place of a program's modules.
const missingModules = `
import importlib.util, json, sys
sys.path = [p for p in sys.path if p]
print(json.dumps([m for m in sys.argv[1:] if importlib.util.find_spec(m) is None]))`

// CheckInterpreters returns an error if one of the programs that starts on this machine lacks its interpreter or a
// module of it.
func (p *programs) CheckInterpreters(ctx context.Context, all []engine.Program) error {
	if !p.startsHere() {
		return nil
	}
	asked := map[string]bool{} // servers of one kind are equal
	for _, p := range all {
		needs := p.Python + " " + strings.Join(p.Modules, " ")
		if asked[needs] {
			continue
		}
		asked[needs] = true
		if err := checkInterpreter(ctx, &p); err != nil {
			return fmt.Errorf("%s: %w: %s", p.Name, err, p.Hint)
		}
	}
	return nil
}

// checkInterpreter asks the interpreter of a program for the program's modules.
func checkInterpreter(ctx context.Context, p *engine.Program) error {
	env := map[string]string{}
	maps.Copy(env, p.Env)
	maps.Copy(env, p.Secret)
	ctx, cancel := context.WithTimeoutCause(ctx, interpreterTime, fmt.Errorf("it has not answered for %v", interpreterTime))
	defer cancel()
	ask := process.Program{Command: append([]string{p.Python, "-c", missingModules}, p.Modules...), Env: env, Dir: os.TempDir()}
	out, err := ask.Run(ctx, nil, 1<<20)
	var missing []string
	if err == nil {
		err = json.Unmarshal(out, &missing)
	}
	if err != nil {
		return fmt.Errorf("the interpreter %s does not work: %w", p.Python, err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %s", p.Python, strings.Join(missing, ", "))
	}
	return nil
}
