package model

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// Every engine reads sizes, positions and tokens. What the embedded engine does not compute, it refuses by name.
func TestOnlyTheEmbeddedEngineRefusesOtherComputations(t *testing.T) {
	for change, want := range map[string]string{
		`{"hidden_act":"gelu"}`:                                     `hidden_act "gelu"`,
		`{"partial_rotary_factor":0.5,"rope_interleaved":true}`:     "partial_rotary_factor 0.5, rope_interleaved",
		`{"rope_scaling":{"type":"ntk","factor":2}}`:                `rope_scaling: rope_type "ntk"`,
		`{"rope_scaling":{"type":"linear","factor":2,"mrope":[1]}}`: "rope_scaling: mrope",
		`{"rope_parameters":{"partial_rotary_factor":0.5}}`:         "rope_parameters: partial_rotary_factor 0.5",
		`{"model_type":"smollm3","num_key_value_heads":2,` +
			`"layer_types":["sliding_attention","full_attention"]}`: "sliding_attention in layer_types of a smollm3",
		moe(`"use_sliding_window":true`):                                       "use_sliding_window of a qwen3_moe",
		`{"model_type":"gpt_oss","intermediate_size":0}`:                       `model_type "gpt_oss"`,
		`{"model_type":"gemma4_text","rope_parameters":{"full_attention":{}}}`: `model_type "gemma4_text"`,
	} {
		c, err := ParseConfig(changed(t, change))
		if err != nil {
			t.Errorf("%s: %v", change, err)
			continue
		}
		want += ": the embedded engine does not compute it; trainer_type torch with engine_type vllm does"
		if err := c.Foreign.Refuse(); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", change, err, want)
		}
		if c.HiddenSize != 256 || c.NumLayers != 2 || c.VocabSize != 32 {
			t.Errorf("%s: %+v", change, c)
		}
		if _, err := RandomInit(c, 0, styleHF); err == nil || !strings.Contains(err.Error(), "save it by transformers") {
			t.Errorf("%s: random weights: %v", change, err)
		}
		if err := c.checkGGUF(); err == nil || !strings.Contains(err.Error(), "GGUF") {
			t.Errorf("%s: GGUF: %v", change, err)
		}
	}
	for change, want := range map[string]string{
		`{"model_type":"phi3","hidden_size":0}`:                     "hidden_size is 0",
		`{"model_type":"phi3","resid_pdrop":1.5}`:                   "resid_pdrop is 1.5",
		`{"model_type":"gpt_oss","quantization_config":{"bits":4}}`: "quantization_config",
		`{"model_type":"phi3","architectures":["Phi3ForMaskedLM"]}`: "expected one of Phi3ForCausalLM",
		`{"model_type":"phi3","max_position_embeddings":-1}`:        "max_position_embeddings is -1",
	} {
		if _, err := ParseConfig(changed(t, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", change, err, want)
		}
	}
}

// writeForeign writes a model of a family that the embedded engine does not compute.
func writeForeign(t *testing.T, change string, tensors map[string][]int) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configName), changed(t, change), 0o666); err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for name, shape := range tensors {
		entries = append(entries, safetensors.Float32s(name, shape, make([]float32, product(shape))))
	}
	if err := safetensors.Write(filepath.Join(dir, safetensors.SingleName), entries, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A foreign model has the tensors that its files name. Parameters are counted, adapters placed and models compared by these names.
func TestForeignModelHasTheTensorsOfItsFiles(t *testing.T) {
	const layer = "model.layers.1."
	dir := writeForeign(t, `{"model_type":"lfm3"}`, map[string][]int{
		"model.embed_tokens.weight": {32, 256}, "model.embedding_norm.weight": {256}, layer + "conv.conv.weight": {256, 1, 3},
		layer + "conv.in_proj.weight": {768, 256}, layer + "feed_forward.w1.weight": {64, 256}, layer + "feed_forward.gate.weight": {8, 256},
		layer + "operator_norm.weight": {256}, headName: {32, 256},
	})
	m := open(t, dir)
	if n, want := m.Config.Parameters(), int64(32*256+256+256*3+768*256+64*256+8*256+256); n != want {
		t.Errorf("%d parameters, want %d without the tied head", n, want)
	}
	all := LoRA{Rank: 2, Alpha: 1, TargetModules: []string{AllLinear}}
	specs, err := all.Tensors(m.Config)
	want := []TensorSpec{
		{layer + "conv.in_proj.lora_A.weight", []int{2, 256}}, {layer + "conv.in_proj.lora_B.weight", []int{768, 2}},
		{layer + "feed_forward.w1.lora_A.weight", []int{2, 256}}, {layer + "feed_forward.w1.lora_B.weight", []int{64, 2}},
	}
	if err != nil || !reflect.DeepEqual(specs, want) {
		t.Errorf("adapters %v, %v; want %v", specs, err, want)
	}
	lora, err := all.New(m.Config, 1)
	if err != nil {
		t.Fatal(err)
	}
	ones := map[string]Tensor{}
	for _, spec := range specs {
		ones[spec.Name] = NewTensor(spec.Name, spec.Shape, constant(1))
	}
	adapter := &Adapter{LoRA: all, tensors: ones}
	merged, err := Merge(m, adapter)
	if err != nil {
		t.Fatal(err)
	}
	if got := values(t, merged, layer+"conv.in_proj.weight"); got[0] != 1 || len(lora.Names()) != len(specs) {
		t.Errorf("the merged weight begins with %v, want 1 = scale 1/2 of two products; %d tensors", got[0], len(lora.Names()))
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := WriteDir(to, m.Config, m, "f32"); err != nil {
		t.Fatal(err)
	}
	again := open(t, to)
	if !reflect.DeepEqual(again.Config.Tensors(), m.Config.Tensors()) || m.Config.Differs(again.Config) != "" {
		t.Errorf("the copy has tensors %v, the model %v", again.Config.Tensors(), m.Config.Tensors())
	}
	if err := os.Remove(filepath.Join(to, safetensors.SingleName)); err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Tensors(c); err == nil || !strings.Contains(err.Error(), "not here") {
		t.Errorf("adapters of a model without files: %v", err)
	}
}
