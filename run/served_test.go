package run_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// inServer returns the sampler of a server for the project's model, with random weights from a seed.
// Runs of rl begin with those of seed 3.
func (p project) inServer(t *testing.T, seed uint64) trinity.Sampler {
	t.Helper()
	opener, err := registry.Samplers.Build("cpu", nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := opener.OpenSampler(t.Context(), trinity.SamplerSpec{
		ModelPath: filepath.Join(p.dir, "model"), Init: trinity.InitSpec{Seed: seed, Style: "fan_in"}, MaxSequences: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.(interface{ Close() error }).Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const (
	servedVocab = 272
	servedLen   = 64
)

// A run trains on what a server samples: its log-probabilities are those of the trained model in every
// step, from the first, although the server began with other weights. The run's own weights are
// version 0.
func TestTrainsOnWhatServersSample(t *testing.T) {
	for _, c := range []struct {
		name, engine string
		start        func(t *testing.T, s trinity.Sampler) *server.Fake
		seed         uint64
		override     string
	}{
		{"vllm", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
		}, 99, "trainer.save_interval=1"},
		{"vllm by tokens", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen, Develops: true, Tokens: true})
		}, 99, "trainer.save_interval=1"},
		{"sglang", "sglang", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.SGLang(t, s, servedVocab)
		}, 99, "trainer.save_interval=1"},
		{"adapters in vllm", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen, LoRA: true})
		}, 3, "model.lora_configs=[{lora_rank: 4}]"},
		{"adapters in vllm by tokens", "vllm", func(t *testing.T, s trinity.Sampler) *server.Fake {
			return server.VLLM(t, s, server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen, LoRA: true, Tokens: true})
		}, 3, "model.lora_configs=[{lora_rank: 4}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProject(t, tiny, rl)
			fake := c.start(t, p.inServer(t, c.seed))
			_, err := p.run(t, "explorer.rollout_model.engine_type="+c.engine, "explorer.rollout_model.base_urls=["+fake.URL+"]",
				"algorithm.rollout_correction={bypass_mode: false, rollout_is: token}", "buffer.total_steps=3", c.override)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"kl", "rollout_is_max", "rollout_is_min"} {
				want := 1.0
				if name == "kl" {
					want = 0
				}
				got := curve(t, p.job(), "trainer", "rollout_corr/"+name)
				if len(got) != 3 || slices.ContainsFunc(got, func(v float64) bool { return math.Abs(v-want) > 1e-5 }) {
					t.Errorf("%s: %v, want %v in 3 steps", name, got, want)
				}
			}
			if left := fake.Adapters(); len(left) > 0 {
				t.Errorf("the run has left the adapters %q", left)
			}
			if n := len(fake.Loads()); n != 4 { // versions 0 to 3
				t.Errorf("the server has loaded %q", fake.Loads())
			}
		})
	}
}

// An explorer beside its servers follows a trainer in another process.
func TestServersFollowATrainerElsewhere(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen, Develops: true})
	both := []string{"algorithm.rollout_correction={bypass_mode: false, rollout_is: token}", noEvaluation}
	trainer := p.start(t, nil, append(fields(training), both...)...)
	explorer := p.start(t, nil, append(append(fields(exploring), both...), "explorer.rollout_model.engine_type=vllm",
		"explorer.rollout_model.base_urls=["+fake.URL+"]")...)
	explorer.finish(t)
	trainer.finish(t)
	got := curve(t, p.job(), "trainer", "rollout_corr/kl")
	if len(got) != 8 || slices.ContainsFunc(got, func(v float64) bool { return math.Abs(v) > 1e-5 }) {
		t.Errorf("kl %v, want 0 in 8 steps", got)
	}
}

// An adapter says nothing on another base: a server with one is refused before the first step.
func TestServersWithAnotherModel(t *testing.T) {
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen, LoRA: true})
	_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]",
		"model.lora_configs=[{lora_rank: 4}]")
	if err == nil || !strings.Contains(err.Error(), "the servers sample with another model than the run trains") {
		t.Errorf("got %v", err)
	}
}

// A server that cannot take weights ends a run that trains before its first step, in one line.
func TestServersThatTakeNoWeights(t *testing.T) {
	p := newProject(t, tiny, rl)
	fake := server.VLLM(t, p.inServer(t, 99), server.VLLMOptions{Vocab: servedVocab, MaxLen: servedLen})
	_, err := p.run(t, "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]")
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "start it with VLLM_SERVER_DEV_MODE=1") {
		t.Errorf("got %v", err)
	}
	if got := curve(t, p.job(), "explorer", "rollout/reward/mean"); len(got) > 0 {
		t.Errorf("%d explore steps", len(got))
	}
	_, err = p.run(t, "mode=bench", "explorer.rollout_model.engine_type=vllm", "explorer.rollout_model.base_urls=["+fake.URL+"]", "name=b")
	if err != nil {
		t.Error("an evaluation:", err)
	}
}
