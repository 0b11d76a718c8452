package cpu

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Trainers.Auto, registry.Samplers.Auto = []string{"cpu"}, []string{"cpu"}
	registry.Trainers.Register("cpu", "The embedded engine: forward, backward, AdamW, SGD, Muon and LoRA on this machine's CPU.",
		func() engine.TrainerOpener { return trainerPlugin{} })
	registry.Samplers.Register("cpu", "The embedded engine's sampler: continuous batching on this machine's CPU. In the process of an embedded trainer it takes over its weights without a copy on disk.",
		func() engine.SamplerOpener { return samplerPlugin{} })
}

type (
	trainerPlugin struct{}
	samplerPlugin struct{}
)

// OpenTrainer implements engine.TrainerOpener.
func (trainerPlugin) OpenTrainer(_ context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	opts, err := engineOptions(spec)
	if err != nil {
		return nil, err
	}
	if opts.Score && opts.ForwardOnly {
		return nil, fmt.Errorf("cpu: head %q without training is a reward model's, which is opened as a scorer", spec.Head)
	}
	e, err := Open(opts)
	if err != nil {
		return nil, err // not a nil *Engine, which would be a trainer
	}
	return e, nil
}

// MicroTokens says which micro-batch a run has that does not set trainer.max_token_len_per_gpu. More tokens make no product
// faster, and activations and logits take memory for each.
func (trainerPlugin) MicroTokens() int { return 1024 }

// OpenBase implements engine.BaseSharer.
func (trainerPlugin) OpenBase(_ context.Context, spec engine.TrainerSpec) (engine.Base, error) {
	opts, err := baseOptions(spec)
	if err != nil {
		return nil, err
	}
	b, err := openShared(opts)
	if err != nil {
		return nil, err // not a nil *base, which would be a Base
	}
	return b, nil
}

// baseOptions are the options of a base. A new head would be drawn from a seed, and each tenant has its own.
func baseOptions(spec engine.TrainerSpec) (Options, error) {
	if spec.Head != engine.LogprobHead {
		return Options{}, fmt.Errorf("cpu: head %q: engines of one base have the vocabulary projection", spec.Head)
	}
	return engineOptions(spec)
}

// OpenScorer implements engine.TrainerOpener.
func (trainerPlugin) OpenScorer(_ context.Context, spec engine.TrainerSpec) (trinity.Scorer, error) {
	r, err := openRewardModel(Options{ModelPath: spec.ModelPath, MaxTokens: spec.MicroTokens, DType: spec.DType})
	if err != nil {
		return nil, err // not a nil *rewardScorer, which would be a Scorer
	}
	return r, nil
}

// OpenSampler implements engine.SamplerOpener. Beside an engine the two share the cores: they
// rarely compute at once.
func (samplerPlugin) OpenSampler(ctx context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	if !spec.Shared {
		s, err := openSampler(spec)
		if err != nil {
			return nil, err // not a nil *soloSampler, which would be a Sampler
		}
		return s, nil
	}
	e, ok := spec.Beside.(*Engine)
	if !ok {
		return nil, fmt.Errorf("cpu: the sampler shares the weights of an embedded engine, not of a %T", spec.Beside)
	}
	return e.openSampler(ctx, spec)
}

// openSampler opens a sampler that takes over the weights that the engine offers. They are version
// 0 at first.
func (e *Engine) openSampler(ctx context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	if e.passes.head.hasScore() {
		return nil, errors.New("cpu: an engine with a value head or a score head has no next tokens to sample")
	}
	if spec.InPlace && e.opts.KeepPublished {
		return nil, errors.New("cpu: a sampler of an engine that trains ahead cannot read the trained weights in place")
	}
	s, err := newSampler(e.cfg, spec, e.pool)
	if err != nil {
		return nil, err
	}
	e.attach(s)
	err = e.Offer(ctx, 0)
	if err == nil {
		_, err = e.Adopt(ctx)
	}
	if err != nil {
		e.attach(nil)
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func checkSpecHead(spec engine.TrainerSpec) error {
	switch {
	case spec.Head == engine.LogprobHead:
		return nil
	case spec.Head != engine.ValueHead && spec.Head != engine.ScoreHead:
		return fmt.Errorf("cpu: head %q; expected %q, %q or none", spec.Head, engine.ValueHead, engine.ScoreHead)
	}
	return nil
}

func engineOptions(spec engine.TrainerSpec) (Options, error) {
	width := 0
	for _, path := range spec.Teachers {
		cfg, err := model.ReadConfig(path)
		if err != nil {
			return Options{}, err
		}
		width = max(width, cfg.HiddenSize)
	}
	return Options{
		ModelPath: spec.ModelPath, InitStyle: spec.Init.Style, InitSeed: spec.Init.Seed, LoRA: spec.LoRA, Seed: spec.Seed,
		MaxTokens: spec.MicroTokens, MaxLength: spec.MaxModelLen, Recompute: spec.Recompute, Reference: spec.Reference,
		KeepPublished: spec.Ahead, Optimizer: spec.Optimizer, ForwardOnly: !spec.Train, DType: spec.DType, PublishDType: spec.PublishDType,
		TeacherWidth: width, Replay: spec.Replay, Value: spec.Head == engine.ValueHead, Score: spec.Head == engine.ScoreHead,
	}, checkSpecHead(spec)
}

func newSampler(cfg *model.Config, spec engine.SamplerSpec, pool *kernel.Pool) (*sampler.Sampler, error) {
	opts, err := samplerOptions(cfg, spec, pool)
	if err != nil {
		return nil, err
	}
	return sampler.New(*cfg, opts)
}

func samplerOptions(cfg *model.Config, spec engine.SamplerSpec, pool *kernel.Pool) (sampler.Options, error) {
	opts := sampler.Options{Pool: pool, MaxSequences: spec.MaxSequences, MaxModelLen: spec.MaxModelLen, Decode: spec.Text,
		KeepAcrossVersions: spec.KeepAcrossVersions, Routes: spec.Record.Routes,
		InPlace: spec.Shared && spec.Quantization == "" && (spec.InPlace || spec.LoRA != nil)}
	switch spec.Quantization {
	case "":
	case "bf16":
		opts.Storage = kernel.BF16
	case "int8":
		opts.Storage = kernel.Int8
	default:
		return opts, fmt.Errorf("cpu: quantization %q; expected bf16 or int8", spec.Quantization)
	}
	switch spec.Speculate {
	case "", "auto":
		opts.Drafts = sampler.Automatic
	case "off":
	default:
		n, err := strconv.Atoi(spec.Speculate)
		if err != nil || n < 1 || n > sampler.MostDrafts {
			return opts, fmt.Errorf("cpu: speculate %q; expected auto, off or 1 to %d", spec.Speculate, sampler.MostDrafts)
		}
		opts.Drafts = n
	}
	if opts.MaxModelLen > cfg.MaxPositions {
		opts.MaxModelLen = cfg.MaxPositions
	}
	return opts, nil
}

// soloSampler samples from a model's files, without an engine beside it.
type soloSampler struct {
	*sampler.Sampler
	pool *kernel.Pool
	cfg  *model.Config
	lora bool
}

func openSampler(spec engine.SamplerSpec) (*soloSampler, error) {
	model, err := openModel(Options{ModelPath: spec.ModelPath, InitStyle: spec.Init.Style, InitSeed: spec.Init.Seed})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	s := &soloSampler{pool: kernel.NewPool(0), cfg: model.Config, lora: spec.LoRA != nil}
	if s.Sampler, err = newSampler(model.Config, spec, s.pool); err != nil {
		s.pool.Close()
		return nil, err
	}
	if spec.LoRA != nil && spec.LoRA.Path != "" {
		err = s.loadPolicy(spec.LoRA.Path, 0)
	}
	if err = errors.Join(err, s.load(model, 0)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// LoadWeights implements weights.Loader: dir holds a model, or an adapter of the model that
// was opened.
func (s *soloSampler) LoadWeights(_ context.Context, dir string, version int64) error {
	if s.lora {
		return s.loadPolicy(dir, version)
	}
	model, err := openComputed(dir)
	if err != nil {
		return err
	}
	defer model.Close()
	if difference := s.cfg.Differs(model.Config); difference != "" {
		return fmt.Errorf("cpu: %s is another model than the one that was opened: %s", dir, difference)
	}
	return s.load(model, version)
}

// loadPolicy makes the adapter in a directory the adapter of requests that name none.
func (s *soloSampler) loadPolicy(dir string, version int64) error {
	adapter, err := model.OpenAdapter(dir, s.cfg)
	if err != nil {
		return err
	}
	defer adapter.Close()
	return s.UpdateAdapter(version, &adapter.LoRA, adapter.Float32)
}

func (s *soloSampler) load(weights model.Source, version int64) (err error) {
	arena := kernel.NewArena()
	defer func() { err = errors.Join(err, arena.Free()) }()
	buf, err := arena.Float32(largestTensor(s.cfg))
	if err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	return s.Update(version, func(name string) ([]float32, error) {
		t, err := weights.Tensor(name)
		if err != nil {
			return nil, err
		}
		part := buf[:t.Len()]
		return part, t.Float32(part)
	})
}

// largestTensor is the number of elements of the model's largest tensor.
func largestTensor(cfg *model.Config) int {
	most := 0
	for _, t := range cfg.Tensors() {
		most = max(most, slot{shape: t.Shape}.size())
	}
	return most
}

// Close implements io.Closer.
func (s *soloSampler) Close() error {
	err := s.Sampler.Close()
	s.pool.Close()
	return err
}

// Describe implements engine.TrainerOpener.
func (trainerPlugin) Describe() string { return hardware() }

// Describe implements engine.SamplerOpener.
func (samplerPlugin) Describe() string { return hardware() }

// hardware says which kernels compute, on which cores, and how fast.
func hardware() string {
	text := fmt.Sprintf("kernels %s of %s, %s", kernel.Active(), strings.Join(kernel.Available(), ", "), kernel.Cores())
	switch name, err := kernel.Forced(); {
	case err != nil:
		text += fmt.Sprintf("\n%v", err)
	case name != "":
		text += fmt.Sprintf("\n%s is forced by %s, whatever is fastest", name, kernel.Variable)
	}
	for _, s := range kernel.Speeds() {
		text += fmt.Sprintf("\n%s: %.0f GFLOP/s on one core", s.Set, s.GFLOPS)
	}
	for _, name := range kernel.Rejected() {
		text += fmt.Sprintf("\n%s: not used unless it is forced, because it gives other bits than the portable kernels on this processor; please report it", name)
	}
	return text
}
