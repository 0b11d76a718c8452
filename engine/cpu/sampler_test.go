package cpu

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/engine/cpu/internal/sampler"
	"github.com/trinity-go/trinity/weights"
)

// The sampler records the log-probabilities that the engine computes, for the first weights and
// after a step.
func TestSampledLogprobsEqualTrainedLogprobs(t *testing.T) {
	ctx := context.Background()
	experts := tiny("qwen3_moe")
	experts.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8, UseRslora: true}
	for _, opts := range []Options{
		experts, tiny("llama"), tiny("llama3_bias_tied"), tiny("qwen3"), tiny("mistral"), tiny("qwen3_moe"), tiny("qwen3_moe_sums"),
		tiny("smollm3"), tiny("gemma3_text"), tiny("olmo3"), tiny("phi3"), tiny("ministral3"), tiny("granite"), tiny("granitemoehybrid"),
		adapterOptions("qwen2"), adapterOptions("smollm3"), adapterOptions("gemma3_text"), adapterOptions("olmo3"), adapterOptions("phi3"),
		adapterOptions("granite"), tiny("lfm2"), adapterOptions("lfm2"),
		headAdapter("llama"), newHeadAdapter("llama3_bias_tied"), newHeadAdapter("qwen3_moe"),
		expertAdapter("both"), expertAdapter("gate_up"), expertAdapter("down"), newExpertAdapter("qwen3_moe"),
	} {
		pool := kernel.NewPool(2)
		defer pool.Close()
		opts.Pool = pool
		e := open(t, opts)
		s, err := sampler.New(*e.Config(), sampler.Options{Pool: pool, MaxSequences: 8, MaxModelLen: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		e.attach(s)
		for version := range int64(2) {
			if err := publish(ctx, e, version); err != nil {
				t.Fatal(err)
			}
			group := rollouts(t, s, sequences(t, true)[0].Tokens[:6])
			stats, err := e.Forward(ctx, whole(group), trinity.Streams{})
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range group {
				if x.Versions[1] != version {
					t.Errorf("%s: sampled by version %d, want %d", opts.ModelPath, x.Versions[1], version)
				}
				sampled := make([]float64, len(x.Logprobs))
				for j, v := range x.Logprobs {
					sampled[j] = float64(v)
				}
				if d := worst(stats[i].Logprob, sampled); d > 0 {
					t.Errorf("%s, version %d: sampled and trained logprobs are %.2g nats apart", opts.ModelPath, version, d)
				}
			}
			train(t, e, sequences(t, true), 1)
		}
	}
}

// A sampler takes other weights of its model, and no other model.
func TestLoadWeightsOfAnotherModel(t *testing.T) {
	ctx := context.Background()
	s, err := samplerPlugin{}.OpenSampler(ctx, engine.SamplerSpec{ModelPath: tiny("llama").ModelPath, MaxSequences: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.(interface{ Close() error }).Close()
	loader := s.(weights.Loader)
	if err := loader.LoadWeights(ctx, tiny("llama").ModelPath, 1); err != nil {
		t.Error(err)
	}
	if err := loader.LoadWeights(ctx, tiny("qwen3").ModelPath, 2); err == nil || !strings.Contains(err.Error(), "another model than the one that was opened: Architecture is qwen3, not llama") {
		t.Errorf("another model's weights: %v", err)
	}
	gated := t.TempDir()
	if err := os.CopyFS(gated, os.DirFS(tiny("llama").ModelPath)); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(gated, "config.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(gated, "config.json"), bytes.Replace(config, []byte(`"silu"`), []byte(`"gelu"`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = `hidden_act "gelu": the embedded engine does not compute it`
	if err := loader.LoadWeights(ctx, gated, 3); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("weights of a model that the engine does not compute: %v", err)
	}
}

// Whatever speculate says, a group of replies that repeat themselves is the same, and with drafts it takes fewer
// steps.
func TestSpeculate(t *testing.T) {
	var want []trinity.Completion
	for _, speculate := range []string{"off", "auto", "", "1", "16"} {
		s, err := samplerPlugin{}.OpenSampler(t.Context(), engine.SamplerSpec{ModelPath: tiny("llama").ModelPath, Speculate: speculate})
		if err != nil {
			t.Fatal(err)
		}
		solo := s.(*soloSampler)
		defer solo.Close()
		out, err := s.Sample(t.Context(), trinity.Prompt{Tokens: []int32{5, 6, 7}}, trinity.SamplingParams{N: 4, MaxTokens: 50, IgnoreEOS: true})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = out
		}
		if !reflect.DeepEqual(out, want) {
			t.Errorf("speculate %q: got %v, want %v", speculate, out, want)
		}
		switch verified, accepted, _ := solo.Drafts(); {
		case speculate == "off" && verified != 0, speculate == "16" && accepted == 0, accepted > verified:
			t.Errorf("speculate %q: %d drafts, %d accepted", speculate, verified, accepted)
		}
	}
	for _, speculate := range []string{"0", "17", "some"} {
		_, err := samplerPlugin{}.OpenSampler(t.Context(), engine.SamplerSpec{ModelPath: tiny("llama").ModelPath, Speculate: speculate})
		if err == nil || !strings.Contains(err.Error(), "expected auto, off or 1 to 16") {
			t.Errorf("speculate %q: %v", speculate, err)
		}
	}
}

// A rollout under way reuses what replaced weights computed only if the sampler was opened for that,
// and its versions say so.
func TestRolloutsKeepTheirCacheAcrossVersions(t *testing.T) {
	ctx := t.Context()
	for _, keep := range []bool{false, true} {
		spec := engine.SamplerSpec{ModelPath: tiny("llama").ModelPath, MaxSequences: 1, KeepAcrossVersions: keep}
		s, err := samplerPlugin{}.OpenSampler(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.(interface{ Close() error }).Close()
		p := trinity.SamplingParams{MaxTokens: 4, Hold: make(chan struct{})}
		prompt := slices.Repeat([]int32{5, 6, 7, 8}, 10)
		if _, err := s.Sample(ctx, trinity.Prompt{Tokens: prompt}, p); err != nil {
			t.Fatal(err)
		}
		if err := s.(weights.Loader).LoadWeights(ctx, spec.ModelPath, 1); err != nil {
			t.Fatal(err)
		}
		out, err := s.Sample(ctx, trinity.Prompt{Tokens: append(prompt, 9)}, p)
		if err != nil {
			t.Fatal(err)
		}
		if c := out[0]; keep != (c.Reused >= 32) || keep != (c.Versions == [2]int64{0, 1}) || c.Versions[1] != 1 {
			t.Errorf("keep %v: %d tokens reused, versions %v", keep, c.Reused, c.Versions)
		}
	}
}

// rollouts are four completions of one prompt.
func rollouts(t *testing.T, s trinity.Sampler, prompt []int32) []*trinity.Experience {
	const n, temperature = 20, 0.8
	out, err := s.Sample(context.Background(), trinity.Prompt{Tokens: prompt}, trinity.SamplingParams{N: 4, Temperature: temperature, MaxTokens: n, IgnoreEOS: true, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	var group []*trinity.Experience
	for i, c := range out {
		x := allTrained(i, slices.Concat(prompt, c.Tokens))
		x.Temperature, x.Versions, x.Logprobs = temperature, c.Versions, make([]float32, len(prompt), len(prompt)+n)
		for j := range prompt {
			x.Mask[j] = false
		}
		x.Logprobs = append(x.Logprobs, c.Logprobs...)
		if len(x.Logprobs) != len(x.Tokens) {
			t.Fatalf("%d logprobs for %d tokens", len(x.Logprobs), len(x.Tokens))
		}
		group = append(group, x)
	}
	return group
}
