package cpu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine/cpu/kernel"
	"github.com/trinity-go/trinity/engine/cpu/sampler"
	"github.com/trinity-go/trinity/modelfile"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Engines.Register("cpu", "The embedded engine: forward, backward, AdamW, SGD, Muon, LoRA and continuous-batching sampling on this machine's CPU, in one process.",
		func() trinity.EngineOpener { return plugin{} })
}

type plugin struct{}

// OpenEngine implements trinity.EngineOpener. Trainer and sampler share the cores: they rarely compute at once.
func (plugin) OpenEngine(ctx context.Context, spec trinity.EngineSpec) (trinity.Engine, trinity.Sampler, error) {
	opts, err := engineOptions(spec)
	if err != nil {
		return nil, nil, err
	}
	if opts.scores {
		return nil, nil, fmt.Errorf("cpu: head %q is a reward model's, which is opened as a scorer", spec.Head)
	}
	if spec.Train || spec.Forward {
		return openBoth(ctx, spec, opts)
	}
	s, err := openSampler(spec)
	if err != nil {
		return nil, nil, err
	}
	return nil, s, nil
}

// OpenScorer implements trinity.ScorerOpener.
func (plugin) OpenScorer(_ context.Context, spec trinity.EngineSpec) (trinity.Scorer, error) {
	r, err := OpenRewardModel(Options{ModelPath: spec.ModelPath, MaxTokens: spec.MicroTokens, DType: spec.DType})
	if err != nil {
		return nil, err // not a nil *RewardModel, which would be a Scorer
	}
	return r, nil
}

// openBoth opens the engine, and its sampler if there is to be one.
func openBoth(ctx context.Context, spec trinity.EngineSpec, opts Options) (trinity.Engine, trinity.Sampler, error) {
	e, err := Open(opts)
	if err != nil {
		return nil, nil, err // not a nil *Engine, which would be an Engine
	}
	if !spec.Sample {
		return e, nil, nil
	}
	s, err := newSampler(e.cfg, spec, e.pool)
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	e.Attach(s)
	if err := e.Publish(ctx, 0); err != nil {
		return nil, nil, errors.Join(err, s.Close(), e.Close())
	}
	return e, s, nil
}

func checkSpecHead(spec trinity.EngineSpec) error {
	switch {
	case spec.Head == trinity.LogprobHead:
		return nil
	case spec.Head != trinity.ValueHead && spec.Head != trinity.ScoreHead:
		return fmt.Errorf("cpu: head %q; expected %q, %q or none", spec.Head, trinity.ValueHead, trinity.ScoreHead)
	case spec.Sample:
		return fmt.Errorf("cpu: an engine with a %s head has no next tokens to sample", spec.Head)
	case spec.Head == trinity.ScoreHead && spec.Train:
		return fmt.Errorf("cpu: an engine with a %s head is for forward passes; to train it, open it with head %q", spec.Head, trinity.ValueHead)
	}
	return nil
}

func engineOptions(spec trinity.EngineSpec) (Options, error) {
	width := 0
	for _, path := range spec.Teachers {
		cfg, err := modelfile.ReadConfig(path)
		if err != nil {
			return Options{}, err
		}
		width = max(width, cfg.HiddenSize)
	}
	return Options{
		ModelPath: spec.ModelPath, InitStyle: spec.Init.Style, InitSeed: spec.Init.Seed, LoRA: loraOptions(spec),
		MaxTokens: spec.MicroTokens, MaxLength: spec.MaxModelLen, Recompute: spec.Recompute, Reference: spec.Reference,
		KeepPublished: spec.Ahead, Optimizer: spec.Optimizer, ForwardOnly: !spec.Train, DType: spec.DType, HeadSeed: spec.Seed,
		TeacherWidth: width, Value: spec.Head == trinity.ValueHead, scores: spec.Head == trinity.ScoreHead,
	}, checkSpecHead(spec)
}

func loraOptions(spec trinity.EngineSpec) *LoRAOptions {
	l := spec.LoRA
	if l == nil {
		return nil
	}
	return &LoRAOptions{Rank: l.Rank, Alpha: float64(l.Alpha), TargetModules: l.TargetModules, Exclude: l.Exclude, RSLoRA: l.RSLoRA, Seed: spec.Seed, Path: l.Path, BaseModel: spec.ModelPath}
}

func newSampler(cfg *modelfile.Config, spec trinity.EngineSpec, pool *kernel.Pool) (*sampler.Sampler, error) {
	opts, err := samplerOptions(cfg, spec, pool)
	if err != nil {
		return nil, err
	}
	return sampler.New(*cfg, opts)
}

func samplerOptions(cfg *modelfile.Config, spec trinity.EngineSpec, pool *kernel.Pool) (sampler.Options, error) {
	opts := sampler.Options{Pool: pool, MaxSequences: spec.MaxSequences, MaxModelLen: spec.MaxModelLen, Decode: spec.Text}
	switch spec.Quantization {
	case "":
	case "bf16":
		opts.Storage = kernel.BF16
	case "int8":
		opts.Storage = kernel.Int8
	default:
		return opts, fmt.Errorf("cpu: quantization %q; expected bf16 or int8", spec.Quantization)
	}
	if opts.MaxModelLen == 0 || opts.MaxModelLen > cfg.MaxPositions {
		opts.MaxModelLen = cfg.MaxPositions
	}
	return opts, nil
}

// soloSampler samples from a model's files, without an engine beside it.
type soloSampler struct {
	*sampler.Sampler
	pool *kernel.Pool
	cfg  *modelfile.Config
	lora bool
}

func openSampler(spec trinity.EngineSpec) (*soloSampler, error) {
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

// LoadWeights implements trinity.WeightLoader: dir holds a model, or an adapter of the model that was opened.
func (s *soloSampler) LoadWeights(_ context.Context, dir string, version int64) error {
	if s.lora {
		return s.loadPolicy(dir, version)
	}
	model, err := modelfile.Open(dir)
	if err != nil {
		return err
	}
	defer model.Close()
	if difference := s.cfg.Differs(model.Config); difference != "" {
		return fmt.Errorf("cpu: %s is another model than the one that was opened: %s", dir, difference)
	}
	return s.load(model, version)
}

// loadPolicy makes the adapter of a directory that of requests which name none.
func (s *soloSampler) loadPolicy(dir string, version int64) error {
	adapter, err := modelfile.OpenAdapter(dir, s.cfg)
	if err != nil {
		return err
	}
	defer adapter.Close()
	return s.UpdateAdapter(version, &adapter.LoRA, adapter.Float32)
}

func (s *soloSampler) load(weights modelfile.Source, version int64) (err error) {
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
func largestTensor(cfg *modelfile.Config) int {
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

// Describe implements trinity.EngineOpener.
func (plugin) Describe() string {
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
