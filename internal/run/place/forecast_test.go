package place

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/model"
)

// planner takes 10 bytes, 2 for every token of a micro-batch, less one where a layer is computed
// again, and 3 for every sequence.
type planner struct {
	engine.TrainerOpener
	layers int
}

func (p planner) PlanMemory(s engine.TrainerSpec) ([]engine.MemoryPart, error) {
	return []engine.MemoryPart{{Kind: "weights", Bytes: 10},
		{Kind: "activations", Bytes: int64(s.MicroTokens * (2*p.layers - s.Recompute))}}, nil
}

type samplerPlanner struct{ engine.SamplerOpener }

func (samplerPlanner) PlanMemory(s engine.SamplerSpec) ([]engine.MemoryPart, error) {
	return []engine.MemoryPart{{Kind: "KV cache", Bytes: int64(3 * s.MaxSequences)}}, nil
}

func TestThePlanFitsOrSaysWhatWould(t *testing.T) {
	const layers = 4
	p := newPlanned(t, layers)
	base := p.process().Bytes
	for _, c := range []struct {
		available int64
		recompute int
		want      string
	}{
		{0, 0, ""}, // not known
		{base + 10 + 100*8 + 8*3, 0, ""},
		{base + 10 + 100*8 + 8*3 - 1, 1, ""},
		{base + 10 + 100*5 + 8*3, 3, ""},
		{base + 10 + 100*5 + 8*3 - 1, 3, "; trainer.max_token_len_per_gpu=99 would fit"},
		{base + 10 + 20*5 + 7*3, 3, "; trainer.max_token_len_per_gpu=20 explorer.runner_per_model=3 would fit"},
		{base + 10 + 7*5 + 2*3, 3, "; trainer.max_token_len_per_gpu=7 model.max_model_len=7 explorer.runner_per_model=1 would fit"},
		{base, 3, "; even one short sequence at a time takes"},
	} {
		p.Available, p.Spec.Train.Recompute = c.available, 0
		if err := p.Plan(); err != nil {
			t.Fatal(err)
		}
		why, err := p.DoesNotFit()
		if err != nil {
			t.Fatal(err)
		}
		if p.Spec.Train.Recompute != c.recompute || !strings.Contains(why, c.want) || c.want == "" && why != "" || strings.Contains(why, "\n") {
			t.Errorf("%d bytes available: %d layers again, %q; want %d, %q", c.available, p.Spec.Train.Recompute, why, c.recompute, c.want)
		}
	}
}

// measured is a planner whose costs are measured. Its AdamW takes 500 bytes.
type measured struct{ planner }

func (measured) MicroTokens() int { return 50 }

func (p measured) PlanMemory(s engine.TrainerSpec) ([]engine.MemoryPart, error) {
	parts, err := p.planner.PlanMemory(s)
	if s.Optimizer.Type != engine.AdamW8bit {
		parts = append(parts, engine.MemoryPart{Kind: "optimizer", Bytes: 500 << 20})
	}
	return parts, err
}

// The choices name what they save. What saves less than a twentieth is left out, and so is what the run does already.
func TestThePlanSaysWhatEachChoiceSaves(t *testing.T) {
	const layers, mib = 4, 1 << 20
	p := newPlanned(t, layers)
	choices := func() (settings []string, saves []int64) {
		t.Helper()
		if err := p.Plan(); err != nil {
			t.Fatal(err)
		}
		all, err := p.Choices()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			settings, saves = append(settings, c.Setting), append(saves, c.Saves)
		}
		return settings, saves
	}
	if settings, _ := choices(); settings != nil {
		t.Errorf("an engine without measurements has the choices %q", settings)
	}
	p.Engines.Trainer = measured{planner{layers: layers}}
	const coded = "algorithm.optimizer.optimizer_type=adamw_8bit"
	if settings, saves := choices(); !slices.Equal(settings, []string{coded}) || saves[0] != 500*mib {
		t.Errorf("%q save %d bytes, want the optimizer's %d", settings, saves, 500*mib)
	}
	p.Spec.Train.MicroTokens, p.Spec.Train.Optimizer.Type = 50*mib, engine.AdamW8bit
	want := []string{"trainer.max_token_len_per_gpu=1024", "3 more of 4 layers computed again"}
	if settings, saves := choices(); !slices.Equal(settings, want) || !slices.Equal(saves, []int64{8 * (50*mib - 1024), 3 * 50 * mib}) {
		t.Errorf("%q save %d bytes, want %q", settings, saves, want)
	}
}

// newPlanned is a stage of 100 tokens a micro-batch, sequences of 20, and 8 rollouts of groups of 2
// on 4 runners.
func newPlanned(t *testing.T, layers int) *Forecast {
	t.Helper()
	cfg := &config.Settled{
		Config: config.Config{}, Method: config.Method{GroupSize: 2}, Batch: config.Batch{PerRow: 1, Recompute: true},
	}
	length := 20
	cfg.Model.MaxModelLen = &length
	cfg.Explorer.RunnerPerModel, cfg.Explorer.RolloutModel.EngineNum = 4, 1
	return &Forecast{
		Config: cfg, Engines: &Engines{Trainer: planner{layers: layers}, Sampler: samplerPlanner{}},
		Model: &model.Config{NumLayers: layers, VocabSize: 10},
		Spec: Specs{
			Train:  engine.TrainerSpec{Train: true, MicroTokens: 100, MaxModelLen: length},
			Sample: engine.SamplerSpec{MaxSequences: 8, MaxModelLen: length}, Samples: true,
		},
	}
}

// The critic's spec has the policy's settings without those of adapters and of the reference, and
// its own optimizer.
func TestTheCriticsSpecFollowsThePolicys(t *testing.T) {
	policy := engine.TrainerSpec{
		ModelPath: "m", Init: engine.InitSpec{Seed: 1,
			Style: "hf"}, LoRA: &engine.LoRASpec{LoraRank: 2}, Seed: 3, Optimizer: engine.OptimizerSpec{Type: engine.SGD},
		Train: true, Reference: true, Recompute: 4, Ahead: true, MicroTokens: 5, MaxModelLen: 7,
	}
	own := engine.OptimizerSpec{Type: engine.Muon, Momentum: 0.5}
	want := engine.TrainerSpec{
		ModelPath: "c", Init: policy.Init, Seed: 3, Optimizer: own, Head: engine.ValueHead, Train: true, Recompute: 4, MicroTokens: 5,
		MaxModelLen: 7,
	}
	if got := CriticSpec(policy, "c", own); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// Passing memory, such as a file while it is read, counts only as far as it exceeds what the engine
// takes afterwards.
func TestPassingMemoryCountsBeyondLaterParts(t *testing.T) {
	for _, c := range []struct{ later, want int64 }{{5, 45}, {60, 0}, {20, 30}} {
		parts := []engine.MemoryPart{{Kind: "weights", Bytes: 10}, {Kind: "loading", Bytes: 50, Passing: true},
			{Kind: "activations", Bytes: c.later}}
		if got := lasting(parts)[1].Bytes; got != c.want || Planned(parts, "", "")[0].Bytes != 10+c.later+c.want {
			t.Errorf("50 bytes before %d others: %d for loading, %v in all; want %d for loading", c.later, got, Planned(parts, "", ""), c.want)
		}
	}
}
