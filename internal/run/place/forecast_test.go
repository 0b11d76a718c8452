package place

import (
	"reflect"
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
