package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/weights"
)

// specs returns what the engines open, without the function that decodes text.
func (s *Stage) specs(train, sample bool) place.Specs {
	init := engine.InitSpec{Seed: uint64(s.InitSeed), Style: s.Model.Init.Style}
	lora, length := loraSpec(s.Model.LoraConfigs), config.Value(0, s.Model.MaxModelLen)
	service := s.Model.Service(s.Seed, &s.Method)
	all := place.Specs{Samples: sample}
	if train {
		all.Train = engine.TrainerSpec{
			ModelPath: s.ModelPath, Init: init, LoRA: lora, Seed: uint64(s.Seed), Optimizer: s.Algorithm.Optimizer.Spec(),
			Train: true, Reference: s.Method.Reference, MicroTokens: s.Batch.MicroTokens, MaxModelLen: length, Dir: s.Buffer.CacheDir,
			Ahead: trainsAhead(s), Service: service, Layout: s.Trainer.Layout(),
			Place: s.Openers.Programs.Train, Compile: s.Trainer.Compiled(),
			Images: place.ImageFiles(s.Settled), Replay: s.Algorithm.EnableRouterReplay,
		}
		all.Train.ParamOffload, all.Train.OptimizerOffload = s.Trainer.Offload(config.ActorTree)
		all.Train.ReferenceOffload, _ = s.Trainer.Offload(config.ReferenceTree)
		if s.Openers.TakeTurns() { // the servers have the GPUs while they sample
			all.Train.ParamOffload, all.Train.OptimizerOffload, all.Train.ReferenceOffload = true, true, true
		}
		if sample && s.Openers.RoundsVersions(s.Settled) {
			all.Train.PublishDType = "bf16"
		}
		if s.Critic != nil {
			all.Critic = s.Critic.Optim.Spec()
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
			ModelPath: s.ModelPath, Init: init, LoRA: lora, Quantization: s.Explorer.RolloutModel.Quantization,
			MaxSequences: s.Batch.Sequences, MaxModelLen: length, Shared: train && s.Openers.Way.Shares(),
			InPlace:            train && takesTurns(s.Settled),
			KeepAcrossVersions: s.Explorer.RolloutModel.KvAcrossVersions == "keep", Speculate: s.Explorer.RolloutModel.Speculate,
			Servers: s.Explorer.RolloutModel.BaseUrls,
			Key:     s.Explorer.RolloutModel.APIKey, Patience: wait.Seconds(s.Explorer.MaxTimeout),
			Record:  engine.RecordSpec{Tokens: s.Explores || s.Records()},
			Follows: train || s.Mode == "explore" && feed.Follows(s.Settled),
			Service: service, Start: place.ServerSpec(&s.Explorer.RolloutModel), Bucket: int64(s.Explorer.RolloutModel.WeightSyncBufferSize) << 20,
		}
		all.Sample.Record.Routes = all.Sample.Record.Tokens && config.RoutesKey(s.Settled) != ""
		all.Sample.Start.Place = s.Openers.Programs.Sample
		for _, l := range s.Model.SampledAdapters() {
			all.Sample.Adapters = append(all.Sample.Adapters, l.Path)
		}
	}
	return all
}

// trainsAhead reports whether the engine may train on before its sampler has the newest version: there
// are steps between versions, the explorer asks for versions, or an evaluation holds the one in use. A
// version that is nowhere else may be asked for again until the next one.
func trainsAhead(s *Stage) bool {
	if _, sends := s.Openers.Way.(weights.Sending); sends {
		return true
	}
	evaluates := s.Explores && len(s.Buffer.ExplorerInput.EvalTasksets) > 0
	switch feed.Handover(s.Settled) {
	case weights.WhenAsked:
		return true
	case weights.AtOnce:
		return feed.PublishInterval(s.Settled) > 1 || evaluates
	}
	return feed.PublishInterval(s.Settled) > 1
}

// takesTurns reports whether the explorer rests whenever the weights change: each of its steps waits for the version of the train step
// before it.
func takesTurns(s *config.Settled) bool {
	pace := feed.Pace(s)
	return s.Together && feed.Handover(s) == weights.AtRendezvous && feed.PublishInterval(s) == 1 && pace.Interval == 1 && pace.Offset == 0
}

// forecast says what the engines, the critic and the frozen models will take of a machine with so many bytes of memory
// available.
func (s *Stage) forecast(train, sample bool, available int64) (*place.Forecast, error) {
	spec := s.specs(train, sample)
	path := cmp.Or(spec.Train.ModelPath, spec.Sample.ModelPath)
	m, err := model.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	if n := *s.Model.MaxModelLen; n > m.MaxPositions {
		return nil, s.At(place.ModelLenKey, fmt.Sprintf("is %d, but model %s has positions for %d tokens", n, path, m.MaxPositions),
			"lower it, or max_prompt_tokens and max_response_tokens")
	}
	if m.PartOf != "" && s.ServersFollow() && !s.Explorer.RolloutModel.EnableMultimodal {
		return nil, s.At("model.model_path", fmt.Sprintf("%s is a %s of text and images, of which this run trains the text part (%s), and "+
			"servers that have the whole do not load versions of a part", path, m.PartOf, m.Architecture),
			"write the text part alone with `trinity convert "+path+" --output DIR`, and name DIR")
	}
	if spec.Train.Replay || spec.Sample.Record.Routes {
		if err := m.CheckRouter(); err != nil {
			return nil, s.At(config.RoutesKey(s.Settled), err.Error(), "leave it out")
		}
	}
	if err := checkAdapters(m, s.Model.LoraConfigs); err != nil {
		return nil, err
	}
	f := &place.Forecast{
		Config: s.Settled, Engines: &s.Openers, Model: m, Spec: spec, Critic: s.CriticPath, Available: available,
	}
	if s.CriticPath != "" {
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
		beside(s.askedMemory)
	}
	if spec.Train.Train {
		beside(s.teacherMemory)
	}
	if err != nil {
		return nil, err
	}
	return f, f.Plan()
}

// Fits returns an error if the stage needs more memory than is available. name is of a stage among others.
func (s *Stage) Fits(name string, train, sample bool) error {
	f, err := s.forecast(train, sample, int64(place.Machine().Available))
	if err != nil {
		return err
	}
	why, err := f.DoesNotFit()
	if err == nil && why != "" {
		if name != "" {
			why = "stage " + name + ": " + why
		}
		err = errors.New(why)
	}
	return err
}

// programs returns the programs that the engines of the stage start.
func (s *Stage) programs() []engine.Program {
	spec := s.specs(s.Trains, s.Samples)
	spec.Train.ModelPath = cmp.Or(spec.Train.ModelPath, s.Model.ModelPath) // of a model that is not here yet
	spec.Sample.ModelPath = cmp.Or(spec.Sample.ModelPath, s.Model.ModelPath)
	return s.Openers.ProgramsOf(spec)
}

// CheckInterpreters returns an error if a program of the stage that starts on this machine lacks its interpreter.
func (s *Stage) CheckInterpreters(ctx context.Context) error {
	return s.Openers.Programs.CheckInterpreters(ctx, s.programs())
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
		rendered, err := s.Openers.Programs.Render(s.Name, s.programs())
		if err != nil {
			return "", err
		}
		text.WriteString(rendered)
	}
	return text.String(), nil
}

// programFacts describes the programs of the stage, and what keeps them from starting.
func (s *Stage) programFacts() []string {
	lines := s.Openers.Programs.Describe(s.programs())
	problems := []error{s.Openers.Programs.Unknown, s.CheckInterpreters(context.Background())}
	if !s.IsStage() { // which may start from another model
		problems = append(problems, s.Openers.CheckServedModel(s.Settled, s.ModelPath))
	}
	for _, err := range problems {
		if err != nil {
			lines = append(lines, err.Error()+": the run cannot start")
		}
	}
	return lines
}

// Probe returns how versions of a model's weights are proven, nil if they are not.
func (cfg *Stage) Probe() (*weights.Probe, error) {
	if cfg.Synchronizer.Verify == "off" {
		return nil, nil
	}
	m, err := model.ReadConfig(cfg.ModelPath)
	if err != nil {
		return nil, err
	}
	return &weights.Probe{Vocab: m.VocabSize, Length: config.Value(m.MaxPositions, cfg.Model.MaxModelLen), Digests: Digests(cfg.Settled)}, nil
}

// Digests returns the versions between two comparisons of the digests of servers, 0 for none.
func Digests(cfg *config.Settled) int {
	if cfg.Synchronizer.Verify != "full" {
		return 0
	}
	return cfg.Synchronizer.VerifyInterval
}

// Models are the open models of a stage.
type Models struct {
	Policy, Critic engine.Trainer // nil if the stage trains none
	Sampler        trinity.Sampler
	frozen         []engine.Trainer // the teachers
}

// OpenModels loads the weights of the policy and the critic, on a machine with so many bytes of memory available. What it has
// loaded before an error is in its models.
func (s *Stage) OpenModels(ctx context.Context, train, sample bool, available int64, say func(string)) (m Models, err error) {
	need, err := s.forecast(train, sample, available)
	if err != nil {
		return m, err
	}
	spec := need.Spec
	if n := spec.Train.Recompute; n > 0 {
		say(fmt.Sprintf("memory is short, so the backward pass computes the activations of %d layers again", n))
	}
	if train {
		warnOfBase(s.Model.LoraConfigs, say)
	}
	spec.Sample.Text, spec.Sample.Say, spec.Train.Say = s.Text.Decode, say, say
	spec.Sample.Tokens = encoder(s.Text)
	s.Openers.Programs.Say(say)
	if m.Policy, m.Sampler, err = s.Openers.Open(ctx, spec); err != nil {
		return m, err
	}
	if sleeper, ok := m.Sampler.(weights.Sleeper); ok { // it shares GPUs with the trainer
		if err := sleeper.Sleep(ctx); err != nil {
			return m, err
		}
	}
	if s.CriticPath != "" {
		if m.Critic, err = s.Openers.Trainer.OpenTrainer(ctx, place.CriticSpec(spec.Train, s.CriticPath, spec.Critic)); err != nil {
			return m, fmt.Errorf("opening critic %s: %w", s.CriticPath, err)
		}
	}
	if sample {
		err = m.loadAdapters(ctx, s)
	}
	return m, err
}

// loadAdapters gives the sampler the adapters that the stage does not train.
func (m *Models) loadAdapters(ctx context.Context, s *Stage) error {
	named := s.Model.SampledAdapters()
	loader, ok := m.Sampler.(engine.AdapterLoader)
	if len(named) > 0 && !ok {
		return fmt.Errorf("model.lora_configs: engine %s samples one adapter; leave out the others", s.Engines.Sample)
	}
	for _, l := range named {
		if err := loader.LoadAdapter(ctx, l.Name, l.Path, 0); err != nil {
			return fmt.Errorf("model.lora_configs: adapter %q: %w", l.Name, err)
		}
	}
	return nil
}

// ServeAdapters gives the sampler adapters from PEFT directories, by their names.
func (m *Models) ServeAdapters(ctx context.Context, adapters map[string]string) error {
	loader, ok := m.Sampler.(engine.AdapterLoader)
	for _, name := range slices.Sorted(maps.Keys(adapters)) {
		if !ok {
			return fmt.Errorf("adapter %q: this engine samples one adapter: leave it out", name)
		}
		if err := loader.LoadAdapter(ctx, name, adapters[name], 0); err != nil {
			return fmt.Errorf("adapter %q: %w", name, err)
		}
	}
	return nil
}

// OpenTeachers loads the teachers, by name. The name "" is the first teacher's too. Teachers of one
// file and number type share an engine.
func (m *Models) OpenTeachers(ctx context.Context, s *Stage, say func(string)) (map[string]engine.Trainer, error) {
	if len(s.teacherModels) == 0 {
		return nil, nil
	}
	engines, byName := map[[2]string]engine.Trainer{}, map[string]engine.Trainer{}
	for _, one := range s.teacherModels {
		if one.Served != nil {
			e, err := s.openServed(ctx, one, say)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", one.Key, err)
			}
			byName[one.Name] = e
			m.frozen = append(m.frozen, e)
			continue
		}
		file := [2]string{one.Spec.ModelPath, one.Spec.DType}
		if engines[file] == nil {
			e, err := s.Openers.Trainer.OpenTrainer(ctx, one.Spec)
			if err != nil {
				return nil, fmt.Errorf("%s: opening model %s: %w", one.Key, one.Spec.ModelPath, err)
			}
			engines[file] = e
			m.frozen = append(m.frozen, e)
		}
		byName[one.Name] = engines[file]
	}
	byName[""] = byName[s.teacherModels[0].Name]
	return byName, nil
}

// Close frees the weights.
func (m *Models) Close() error {
	var errs []error
	if c, ok := m.Sampler.(io.Closer); ok {
		errs = append(errs, c.Close())
	}
	for _, e := range append(m.frozen, m.Policy, m.Critic) {
		if e != nil {
			errs = append(errs, e.Close())
		}
	}
	*m = Models{}
	return errors.Join(errs...)
}
