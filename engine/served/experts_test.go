package served_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/served"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

const (
	mixture  = "../cpu/testdata/qwen3_moe"
	adapters = "../cpu/testdata/expert_adapter/"
)

var ofExperts = engine.Names{"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}

// vLLM is told that the tensors of an adapter of experts are stacked.
func TestAdaptersOfExperts(t *testing.T) {
	oracle := ownOf(t, mixture)
	if err := oracle.(engine.AdapterLoader).LoadAdapter(t.Context(), "new", adapters+"both", 0); err != nil {
		t.Fatal(err)
	}
	o := server.Options{Vocab: vocab, MaxLen: 32, LoRA: true, MaxRank: 8, Develops: true, Mixed: true}
	with := spec(server.VLLM(t, ownOf(t, mixture), o).URL)
	with.ModelPath, with.Follows = mixture, true
	with.LoRA = &engine.LoRASpec{LoraRank: 4, TargetParameters: ofExperts}
	s := served.Hasten(must(t, "vllm", with))
	if err := s.(weights.Loader).LoadWeights(t.Context(), adapters+"both", 1); err != nil {
		t.Fatal(err)
	}
	p := trinity.SamplingParams{Temperature: 1, MaxTokens: 6, Seed: 3}
	got, err := s.Sample(t.Context(), asking, p)
	if err != nil {
		t.Fatal(err)
	}
	p.Adapter = "new"
	want, err := oracle.Sample(t.Context(), asking, p)
	if err != nil || !slices.Equal(got[0].Logprobs, want[0].Logprobs) {
		t.Errorf("got %v, want %v (%v)", got[0].Logprobs, want[0].Logprobs, err)
	}
	o.Mixed = false
	with.Servers = []string{server.VLLM(t, ownOf(t, mixture), o).URL}
	_, err = open(t, "vllm", with, nil)
	const flag = "takes no adapters: adapters of experts need --enable-mixed-moe-lora-format: start it with that"
	if err == nil || !strings.Contains(err.Error(), flag) {
		t.Errorf("a server without the flag: %v", err)
	}
}

func TestAdaptersOfExpertsThatServersDoNotTake(t *testing.T) {
	for _, half := range []*engine.LoRASpec{{LoraRank: 2, TargetParameters: ofExperts[:1]}, {Path: adapters + "gate_up"}} {
		with := spec(server.VLLM(t, ownOf(t, mixture), server.Options{Vocab: vocab, MaxLen: 32, LoRA: true}).URL)
		with.ModelPath, with.LoRA = "../cpu/testdata/qwen3_moe_sums", half
		_, err := open(t, "vllm", with, nil)
		if err == nil || !strings.Contains(err.Error(), "vLLM takes gate_up_proj and down_proj together") {
			t.Errorf("%+v: %v", half, err)
		}
	}
	const key = "model.lora_configs.0.target_parameters"
	for _, c := range []struct{ kind, names, want string }{
		{"vllm", "[mlp.experts.down_proj]", "an adapter of one tensor of experts"},
		{"vllm", "[mlp.experts.down_proj, mlp.experts.gate_up_proj]", ""},
		{"vllm", "[layers.1.mlp.experts.down_proj, layers.2.mlp.experts.gate_up_proj]", "an adapter of one tensor of experts"},
		{"sglang", "[mlp.experts.down_proj, mlp.experts.gate_up_proj]", "adapters of experts, which nobody has tried with SGLang"},
	} {
		_, err := config.Parse("run.yaml", []byte(training), config.Options{Overrides: []string{
			"explorer.rollout_model.base_urls=[]", "explorer.rollout_model.engine_type=" + c.kind,
			"model.lora_configs=[{lora_rank: 4, target_parameters: " + c.names + "}]"}})
		says := err != nil && strings.Contains(err.Error(), key) && strings.Contains(err.Error(), c.want)
		if c.want == "" && err != nil || c.want != "" && !says {
			t.Errorf("%s, %s: error %v, want %q", c.kind, c.names, err, c.want)
		}
	}
}
