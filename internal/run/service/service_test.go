package service

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/registry"
)

// Two services would write the same journals.
func TestOneServiceUsesADirectory(t *testing.T) {
	dir := t.TempDir()
	lock, err := durable.TakeLock(dir, "service", "trinity service")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	err = Run(t.Context(), Options{Dir: dir})
	if err == nil || !strings.HasPrefix(err.Error(), "the directory "+dir+" is that of trinity service (process ") {
		t.Errorf("%v", err)
	}
}

// starting is a sampler that starts servers. It keeps what it was to open.
type starting struct {
	engine.SamplerOpener
	spec engine.SamplerSpec
}

func (*starting) Programs(engine.SamplerSpec) []engine.Program               { return nil }
func (*starting) PlanMemory(engine.SamplerSpec) ([]engine.MemoryPart, error) { return nil, nil }
func (s *starting) OpenSampler(_ context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	s.spec = spec
	return nil, errors.New("kept")
}

// worker is a trainer with a program. It keeps where that would run.
type worker struct {
	engine.TrainerOpener
	place engine.Place
}

func (*worker) Programs(engine.TrainerSpec) []engine.Program { return nil }
func (w *worker) PlanMemory(spec engine.TrainerSpec) ([]engine.MemoryPart, error) {
	w.place = spec.Place
	return nil, nil
}

var kept, trains = &starting{}, &worker{}

func init() {
	registry.Samplers.Register("starting", "", func() engine.SamplerOpener { return kept })
	registry.Trainers.Register("starting", "", func() engine.TrainerOpener { return trains })
}

// Servers get GPUs beside the trainer: the same one if there is one alone, and else the others.
func TestServersGetGPUs(t *testing.T) {
	for _, c := range []struct {
		gpus, trainer string
		args          map[string]any
		each          int
		share         float64
		shared        bool
		want          string
	}{
		{"", "starting", nil, 0, 0.9, false, "kept"},
		{"0", "cpu", nil, 1, 0.9, false, "kept"},
		{"0", "starting", nil, 1, 0.5, true, "kept"},
		{"0", "starting", map[string]any{"gpu_memory_utilization": 0.3}, 1, 0.3, true, "kept"},
		{"0,1", "starting", nil, 1, 0.9, false, "kept"},
		{"0,1", "starting", map[string]any{"engine_num": 2}, 0, 0, false, "2 servers with tensor_parallel_size 1 need 2 GPUs"},
		{"0,1,2", "starting", map[string]any{"tensor_parallel_size": 2}, 2, 0.9, false, "kept"},
		{"0,1", "cpu", map[string]any{"engine_num": 2}, 1, 0.9, false, "kept"},
	} {
		t.Setenv("CUDA_VISIBLE_DEVICES", c.gpus)
		kept.spec = engine.SamplerSpec{}
		o := &Options{
			Trainer: c.trainer, Sampler: "starting", SamplerArgs: c.args, Models: []Model{{"tiny", tiny}}, MaxLen: 16, Say: func(string) {},
		}
		_, _, err := openBase(t.Context(), o, o.Models[0])
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.want != "kept" {
			continue
		}
		s := &kept.spec
		if s.Start.Place.GPUs != c.each || s.Start.MemoryShare != c.share || s.LoRA.LoraRank != 32 || s.Slots != 8 || !s.Record.Tokens {
			t.Errorf("%+v: %+v", c, s)
		}
		if c.trainer == "starting" && (s.Start.Place.Programs != trains.place.Programs) != c.shared { // one launcher gives a GPU to one program
			t.Errorf("%+v: %+v and %+v", c, s.Start.Place, trains.place)
		}
	}
}

// A model without a tokenizer samples, and refuses stop strings, which nobody can look for.
func TestABaseWithoutATokenizer(t *testing.T) {
	b, closing, err := openBase(t.Context(), &Options{Trainer: "cpu", Sampler: "cpu", MaxLen: 16, Say: func(string) {}}, Model{"tiny", tiny})
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	prompt, p := trinity.Prompt{Tokens: []int32{3, 4}}, trinity.SamplingParams{Temperature: 1, MaxTokens: 2, IgnoreEOS: true}
	if _, err := b.Sampler.Sample(t.Context(), prompt, p); err != nil {
		t.Error(err)
	}
	p.Stop = []string{"x"}
	if _, err := b.Sampler.Sample(t.Context(), prompt, p); err == nil || !strings.Contains(err.Error(), "use stop tokens") {
		t.Errorf("stop strings: %v", err)
	}
}
