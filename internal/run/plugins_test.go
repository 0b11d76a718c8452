package run_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/buffer"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
	"github.com/trinity-go/trinity/weights"
)

// A plug-in of each kind that brings data or weights from one place to another, as another program
// would register them.
func init() {
	registry.Trainers.Register("test_bandit", "A bandit of the model's vocabulary.",
		func() engine.TrainerOpener { return &banditTrainer{Scale: 1} })
	registry.Samplers.Register("test_bandit_sampler", "Another bandit, which loads weights.",
		func() engine.SamplerOpener { return &banditSampler{} })
	registry.Buffers.Register("test_store", "A queue in memory.", func() trinity.BufferOpener { return storeOpener{} })
	weights.Ways.Register("test_copies", "Copies the bandit's logits.", func() weights.Way { return copies{} })
}

// used counts what a run asked of the plug-ins.
var used struct {
	scale    float64
	versions []int64
	puts     int
	keeps    bool
}

func newBandit(path string) (*trinitytest.Bandit, error) {
	cfg, err := model.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	return trinitytest.NewBandit(cfg.VocabSize), nil
}

type banditTrainer struct {
	Scale float64 `yaml:"scale" doc:"factor of the learning rate"`
}

func (o *banditTrainer) OpenTrainer(_ context.Context, spec engine.TrainerSpec) (engine.Trainer, error) {
	used.scale = o.Scale
	bandit, err := newBandit(spec.ModelPath)
	return plainEngine{bandit}, err
}

func (*banditTrainer) OpenScorer(context.Context, engine.TrainerSpec) (trinity.Scorer, error) {
	return nil, errors.New("a bandit is no reward model")
}

func (*banditTrainer) PlanMemory(engine.TrainerSpec) ([]engine.MemoryPart, error) { return nil, nil }
func (*banditTrainer) Describe() string                                           { return "a bandit" }

// plainEngine has nothing but the methods of engine.Trainer.
type plainEngine struct{ engine.Trainer }

type banditSampler struct{}

func (*banditSampler) OpenSampler(_ context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	if spec.Shared {
		return nil, errors.New("the sampler is to share memory with an engine of another name")
	}
	used.keeps = spec.KeepAcrossVersions
	return newBandit(spec.ModelPath)
}

func (*banditSampler) Reads(*config.Settled) map[string]string {
	return map[string]string{"explorer.rollout_model.kv_across_versions": ""}
}

func (*banditSampler) Refuses(*config.Settled) []config.Refusal { return nil }

func (*banditSampler) PlanMemory(engine.SamplerSpec) ([]engine.MemoryPart, error) { return nil, nil }
func (*banditSampler) Describe() string                                           { return "a bandit" }

type storeOpener struct{}

func (storeOpener) OpenBuffer(_ context.Context, s trinity.BufferSpec) (trinity.Buffer, error) {
	queue := buffer.NewQueue(s.Capacity, 1<<20, nil)
	queue.TakeTimeout, queue.PutTimeout = s.TakeTimeout, s.PutTimeout
	return store{queue}, nil
}

type store struct{ *buffer.Queue }

func (s store) Sink(explorer string) trinity.Sink { return countedSink{s.Queue.Sink(explorer)} }

type countedSink struct{ trinity.Sink }

func (s countedSink) Put(ctx context.Context, d trinity.Delivery) error {
	used.puts++
	return s.Sink.Put(ctx, d)
}

// copies hands logits from one bandit to the other.
type copies struct{}

func (copies) Shares() bool { return false }

func (copies) Open(_ context.Context, l weights.Link) (weights.Synchronizer, error) {
	from, to := l.Engine.(plainEngine).Trainer.(*trinitytest.Bandit), l.Sampler.(*trinitytest.Bandit)
	return weights.NewMemory(&copier{from: from, to: to, dir: filepath.Join(l.Dir, "logits")}, l.Version, l.Handover, l.Timeout), nil
}

type copier struct {
	from, to *trinitytest.Bandit
	dir      string
	version  int64
}

func (c *copier) Offer(ctx context.Context, version int64) error {
	c.version = version
	return c.from.SaveModel(ctx, c.dir)
}

func (c *copier) Adopt(ctx context.Context) (int64, error) {
	used.versions = append(used.versions, c.version)
	return c.version, c.to.LoadWeights(ctx, c.dir, c.version)
}

// A run with a trainer, a sampler, a buffer and weights of another program learns as one with the
// built-in plug-ins. No other part of the program knows their names.
func TestForeignPluginsRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	foreign := []string{
		"trainer.trainer_type=test_bandit", "trainer.trainer_args={scale: 2}", "explorer.rollout_model.engine_type=test_bandit_sampler",
		"synchronizer.sync_method=test_copies", "buffer.trainer_input.experience_buffer={storage_type: test_store, path: nowhere}",
		"explorer.rollout_model.kv_across_versions=keep",
	}
	if _, err := runConfig(t, p.load(t, foreign...)); err != nil {
		t.Fatal(err)
	}
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8}; used.scale != 2 || !slices.Equal(used.versions, want) || used.puts == 0 {
		t.Errorf("scale %v, versions %v, %d deliveries; want scale 2 and versions %v", used.scale, used.versions, used.puts, want)
	}
	if !used.keeps {
		t.Error("the sampler was not told to keep its KV cache across versions")
	}
	if got := curve(t, p.job(), "trainer", "actor/grad_norm"); len(got) != 8 {
		t.Errorf("%d train steps, want 8", len(got))
	}
	for _, name := range []string{"global_step_8/engine/weights.json", "global_step_8/actor/huggingface/weights.json"} {
		if !exists(filepath.Join(p.job(), filepath.FromSlash(name))) {
			t.Errorf("%s is missing", name)
		}
	}
	_, err := config.Load(p.config, config.Options{Overrides: append(slices.Clone(foreign), "trainer.trainer_args={rank: 2}")})
	if err == nil || !strings.Contains(err.Error(), "trainer.trainer_args.rank: unknown argument") {
		t.Errorf("an argument that the engine lacks: %v", err)
	}
}

// It changes no number whether weights go through memory or through a directory.
func TestWaysOfWeightsAgree(t *testing.T) {
	var want []float64
	for _, way := range []string{"nccl", "directory"} {
		p := newProject(t, tiny, rl)
		if _, err := runConfig(t, p.load(t, noEvaluation, "buffer.total_steps=4", "synchronizer.sync_method="+way)); err != nil {
			t.Fatal(err)
		}
		got := append(curve(t, p.job(), "trainer", "actor/grad_norm"), curve(t, p.job(), "trainer", "actor/final_loss")...)
		if want == nil {
			want = got
		}
		if len(got) < 4 || !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", way, got, want)
		}
	}
}
