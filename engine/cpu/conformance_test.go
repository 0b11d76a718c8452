package cpu

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/trinitytest"
)

// trained is an engine with a sampler attached.
func trained(t *testing.T, opts Options) trinitytest.Trained {
	t.Helper()
	opts.KeepPublished, opts.Reference = true, true
	e := open(t, opts)
	s, err := sampler.New(*e.Config(), sampler.Options{MaxSequences: 4, MaxModelLen: 48})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	e.attach(s)
	return trinitytest.Trained{Engine: e, Sampler: s, Targets: true}
}

func TestIsAnEngine(t *testing.T) {
	newCritic, loraCritic := tiny("qwen2"), critic()
	newCritic.Value, newCritic.Seed = true, 1
	loraCritic.LoRA, loraCritic.Seed = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1
	for name, opts := range map[string]Options{"critic": critic(), "new critic": newCritic, "critic with adapters": loraCritic} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Engine(t, func(t *testing.T) trinitytest.Trained { return trinitytest.Trained{Engine: open(t, opts), Value: true} })
		})
	}
	newLoRA, momentum, muon := tiny("qwen2"), tiny("llama"), tiny("qwen3")
	newLoRA.LoRA, newLoRA.Seed = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}, 1
	momentum.Optimizer = engine.OptimizerSpec{Type: engine.SGD, Momentum: 0.9}
	muon.Optimizer = engine.OptimizerSpec{Type: engine.Muon, Momentum: 0.95, Nesterov: true}
	muonLoRA := newLoRA
	muonLoRA.Optimizer = muon.Optimizer
	for name, opts := range map[string]Options{
		"all weights": tiny("llama"), "adapters": adapterOptions("qwen2"), "new adapters": newLoRA, "momentum": momentum, "muon": muon, "muon of adapters": muonLoRA,
		"adapter of the head": headAdapter("llama"), "new adapter of a tied head": newHeadAdapter("llama3_bias_tied"),
	} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Engine(t, func(t *testing.T) trinitytest.Trained { return trained(t, opts) })
		})
	}
}

func TestAttachedSamplerIsASampler(t *testing.T) {
	for name, opts := range map[string]Options{"layers": adapterOptions("qwen2"), "head": headAdapter("llama3_bias_tied")} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Sampler(t, trinitytest.SamplerOptions{Vocab: 64}, func(t *testing.T) trinity.Sampler {
				e := trained(t, opts)
				if err := publish(t.Context(), e.Engine, 1); err != nil {
					t.Fatal(err)
				}
				return e.Sampler
			})
		})
	}
}
