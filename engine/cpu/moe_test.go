package cpu

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/model"
)

// balanced is the tiny model whose config asks for the load-balancing loss.
func balanced(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors"} {
		text, err := os.ReadFile(filepath.Join("testdata", "qwen3_moe_sums", name))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), `"output_router_logits": false`, `"output_router_logits": true`, 1))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return Options{ModelPath: dir}
}

// nothing is a loss without derivatives.
var nothing = broken{grads: func(n int) []trinity.TokenGrads { return make([]trinity.TokenGrads, n) }}

func TestLoadBalancingEqualsTransformers(t *testing.T) {
	var want struct{ Loss float64 }
	readJSON(t, "testdata/qwen3_moe_sums/reference_balance.json.gz", &want)
	tensor := tensorFile(t, "testdata/qwen3_moe_sums/gradients_balance.safetensors")
	e := open(t, balanced(t))
	_, got := e.gradientOf(t, nothing, whole(sequences(t, true)))
	for _, name := range []string{
		"layers.0.mlp.gate.weight", "layers.1.mlp.gate.weight", "layers.0.self_attn.q_norm.weight", "layers.0.self_attn.k_proj.weight",
		"layers.1.input_layernorm.weight", "layers.0.mlp.experts.1.down_proj.weight", "layers.0.mlp.experts.2.gate_proj.weight",
	} {
		if d := difference(e.base.in(got, "model."+name), tensor("model."+name)); d > 1e-4 {
			t.Errorf("%s: gradient is %.2g relative off", name, d)
		}
	}
	metrics, err := e.ForwardBackward(context.Background(), whole(sequences(t, true)), nothing)
	if err != nil {
		t.Fatal(err)
	}
	if d := math.Abs(metrics["router/aux_loss"] - want.Loss); d > 1e-5 {
		t.Errorf("loss is %.7f, want %.7f", metrics["router/aux_loss"], want.Loss)
	}
}

func TestLoadBalancingDoesNotDependOnMicroBatches(t *testing.T) {
	e := open(t, balanced(t))
	all := longGroups(e.cfg.VocabSize)
	measure := func(size int) (gradient []float32, metrics trinity.Metrics) {
		clear(e.gradient)
		metrics = trinity.Metrics{}
		for part := range slices.Chunk(all, size) {
			m, err := e.ForwardBackward(context.Background(), &trinity.Batch{Step: 1, Experiences: part, Whole: all}, weighted{})
			if err != nil {
				t.Fatal(err)
			}
			metrics.Add(m)
		}
		gradient = slices.Clone(e.gradient)
		m, err := e.OptimStep(context.Background(), trinity.OptimParams{Eps: 1e-8}) // a learning rate of 0
		if err != nil {
			t.Fatal(err)
		}
		metrics.Add(m)
		return gradient, metrics
	}
	want, load := measure(len(all))
	for _, size := range []int{1, 2, 4} {
		gradient, got := measure(size)
		if d := difference(gradient, want); d > 1e-6 {
			t.Errorf("micro-batches of %d: gradient differs by %.2g relative", size, d)
		}
		for name, v := range load {
			if strings.HasPrefix(name, "router/") && math.Abs(got[name]-v) > 1e-6 {
				t.Errorf("micro-batches of %d: %s is %v, want %v", size, name, got[name], v)
			}
		}
	}
}

// Beside an even load, the busiest expert is over it and the idlest under it.
func TestLoadOfExpertsIsReported(t *testing.T) {
	e := open(t, tiny("qwen3_moe"))
	train(t, e, sequences(t, true), 1)
	if _, err := e.ForwardBackward(context.Background(), whole(sequences(t, true)), weighted{}); err != nil {
		t.Fatal(err)
	}
	counts := slices.Clone(e.balance.counts[1])
	tokens := int64(0)
	for _, x := range sequences(t, true) {
		tokens += int64(lastTrained(x.Mask))
	}
	sum := int64(0)
	for _, c := range counts {
		sum += c
	}
	if sum != 2*tokens || e.balance.counts[0] != nil {
		t.Errorf("%d tokens at experts, want %d twice; layer 0: %v", sum, tokens, e.balance.counts[0])
	}
	m, err := e.OptimStep(context.Background(), adam)
	if err != nil {
		t.Fatal(err)
	}
	even := float64(sum) / float64(len(counts))
	if got := m["router/load_max"] - float64(slices.Max(counts))/even; math.Abs(got) > 1e-9 {
		t.Errorf("load_max is %v for %v", m["router/load_max"], counts)
	}
	if got := m["router/load_min"] - float64(slices.Min(counts))/even; math.Abs(got) > 1e-9 {
		t.Errorf("load_min is %v for %v", m["router/load_min"], counts)
	}
	if h := m["router/load_entropy"]; h <= 0 || h >= 1 {
		t.Errorf("load_entropy is %v for %v", h, counts)
	}
	if m, err = e.OptimStep(context.Background(), adam); err != nil || len(m) != 2 {
		t.Errorf("metrics %v, %v without a forward pass", m, err)
	}
}

func TestAdaptersBesideExperts(t *testing.T) {
	opts := tiny("qwen3_moe")
	opts.LoRA = &engine.LoRASpec{LoraRank: 4, LoraAlpha: 8}
	e := open(t, opts)
	full := open(t, tiny("qwen3_moe"))
	for _, s := range e.adapters.slots {
		if strings.Contains(s.name, "experts") || strings.Contains(s.name, "mlp.gate.") {
			t.Errorf("%s is adapted", s.name)
		}
	}
	_, got := e.gradientOf(t, weighted{}, whole(sequences(t, true)))
	_, want := full.gradientOf(t, weighted{}, whole(sequences(t, true)))
	for _, module := range []string{ // the gradient by B = 0 is scale·dW·Aᵀ
		"model.layers.1.self_attn.o_proj", "model.layers.0.self_attn.v_proj",
	} {
		a := e.adapters.block(e.trained, module+".lora_A.weight")
		d := full.base.block(want, module+".weight")
		product := kernel.NewMatrix(make([]float32, d.Rows*a.Rows), d.Rows, a.Rows)
		kernel.MatMul(nil, product, d, a.T(), false)
		kernel.Scale(product.Data, product.Data, e.adapters.scale)
		if d := difference(e.adapters.in(got, module+".lora_B.weight"), product.Data); d > 1e-5 {
			t.Errorf("%s: gradient differs by %.2g relative", module, d)
		}
	}
}

// The MLP's width in the config of a model whose layers all have experts is of no layer.
func TestPlanSkipsTheMLPOfExperts(t *testing.T) {
	plan := func(intermediate int, layers []bool) (n int64) {
		cfg, err := model.ReadConfig("testdata/qwen3_moe")
		if err != nil {
			t.Fatal(err)
		}
		mixture := *cfg.Mixture
		mixture.Layers, cfg.Mixture, cfg.IntermediateSize = layers, &mixture, intermediate
		parts, err := Plan(cfg, Options{ModelPath: "m", MaxTokens: 64})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			n += p.Bytes
		}
		return n
	}
	if small, large := plan(40, []bool{true, true}), plan(4000, []bool{true, true}); small != large {
		t.Errorf("%d bytes for an intermediate_size of 40, %d for one of 4000, of no layer", small, large)
	}
	if small, large := plan(40, []bool{false, true}), plan(4000, []bool{false, true}); small >= large {
		t.Errorf("%d bytes for an intermediate_size of 40, %d for one of 4000, of a layer", small, large)
	}
}
