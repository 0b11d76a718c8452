package model

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// lfm2Config has the keys of LFM2-350M, and fewer layers.
const lfm2Config = `{"model_type":"lfm2","architectures":["Lfm2ForCausalLM"],"hidden_size":1024,"intermediate_size":6656,
"block_ff_dim":6656,"block_auto_adjust_ff_dim":true,"block_ffn_dim_multiplier":1.0,"block_multiple_of":256,"conv_L_cache":3,
"conv_bias":false,"num_hidden_layers":4,"num_attention_heads":16,"num_heads":16,"num_key_value_heads":8,"vocab_size":65536,
"max_position_embeddings":128000,"norm_eps":1e-05,"rope_theta":1000000.0,"full_attn_idxs":[2],"tie_embedding":true,
"bos_token_id":1,"eos_token_id":7,"pad_token_id":0}`

func TestLFM2Config(t *testing.T) {
	c, err := ParseConfig([]byte(lfm2Config))
	if err != nil || c.Foreign != nil {
		t.Fatal(err, c.Foreign)
	}
	if conv := (&ShortConv{Taps: 3, Layers: []bool{true, true, false, true}}); !reflect.DeepEqual(c.ShortConv, conv) {
		t.Errorf("convolutions %v, want %v", c.ShortConv, conv)
	}
	if c.IntermediateSize != 4608 || c.RMSNormEps != 1e-5 || !c.TieEmbeddings || c.RopeTheta != 1e6 {
		t.Errorf("an MLP of %d, eps %v, tied %t, theta %v", c.IntermediateSize, c.RMSNormEps, c.TieEmbeddings, c.RopeTheta)
	}
	var names []string
	for _, s := range c.Tensors() {
		if name, ok := strings.CutPrefix(s.Name, "model.layers.1."); ok {
			names = append(names, name)
		}
	}
	want := []string{
		"operator_norm.weight", "conv.in_proj.weight", "conv.out_proj.weight", "conv.conv.weight", "ffn_norm.weight",
		"feed_forward.w1.weight", "feed_forward.w3.weight", "feed_forward.w2.weight",
	}
	if !slices.Equal(names, want) {
		t.Errorf("a layer has the tensors %v, want %v", names, want)
	}
	for _, other := range []struct {
		was, is string
		width   int
	}{
		{`"block_ffn_dim_multiplier":1.0`, `"block_ffn_dim_multiplier":1.02`, 4608}, {`"block_multiple_of":256`, `"block_multiple_of":2`, 4438},
		{`"block_auto_adjust_ff_dim":true`, `"block_auto_adjust_ff_dim":false`, 6656},
	} {
		c, err := ParseConfig([]byte(strings.Replace(lfm2Config, other.was, other.is, 1)))
		if err != nil || c.IntermediateSize != other.width {
			t.Errorf("%s: an MLP of %d, %v; want %d", other.is, c.IntermediateSize, err, other.width)
		}
	}
	other, err := ParseConfig([]byte(strings.Replace(lfm2Config, `[2]`, `[1]`, 1)))
	if err != nil || !strings.Contains(c.Differs(other), "ShortConv is") {
		t.Errorf("attention in another layer: %v, %q", err, c.Differs(other))
	}
}

func TestLFM2Refusals(t *testing.T) {
	for _, bad := range []struct{ was, is, want string }{
		{`"full_attn_idxs":[2]`, `"layer_types":["conv","conv"]`, "layer_types has 2 entries; expected 4"},
		{`"full_attn_idxs":[2]`, `"layer_types":["conv","conv","conv","mamba"]`, "layer_types[3] is \"mamba\"; expected full_attention or conv"},
		{`"full_attn_idxs":[2]`, `"full_attn_idxs":2`, "full_attn_idxs is 2; expected a list of layer numbers"},
		{`"conv_L_cache":3`, `"conv_L_cache":17`, "conv_L_cache is 17; expected 1 to 16"},
		{`"conv_L_cache":3`, `"conv_L_cache":"3"`, `conv_L_cache is "3"; expected an integer`},
		{`[2]`, `"2"`, `full_attn_idxs is "2"; expected a list of layer numbers`},
		{`"eos_token_id":7`, `"eos_token_id":"7"`, `eos_token_id is "7"; expected token ids`},
		{`"block_multiple_of":256`, `"block_multiple_of":0`, "block_multiple_of is 0 and block_ffn_dim_multiplier 1; expected positive"},
	} {
		_, err := ParseConfig([]byte(strings.Replace(lfm2Config, bad.was, bad.is, 1)))
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", bad.is, err, bad.want)
		}
	}
	biased, err := ParseConfig([]byte(strings.Replace(lfm2Config, `"conv_bias":false`, `"conv_bias":true`, 1)))
	if err != nil || biased.Foreign == nil || biased.Foreign.Why != "conv_bias" {
		t.Errorf("convolutions with a bias: %v", err)
	}
	c, err := ParseConfig([]byte(lfm2Config))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.checkGGUF(); err == nil || !strings.Contains(err.Error(), "lfm2 models are written as Hugging Face directories only") {
		t.Errorf("as a GGUF file: %v", err)
	}
}

// Taps have the standard deviation of what they sum.
func TestLFM2RandomInit(t *testing.T) {
	smaller := strings.NewReplacer(`"hidden_size":1024`, `"hidden_size":64`, `"vocab_size":65536`, `"vocab_size":32`, `6656`, `96`)
	text := smaller.Replace(lfm2Config)
	c, err := ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := RandomInit(c, 1, styleFanIn)
	if err != nil {
		t.Fatal(err)
	}
	sum, v := 0.0, values(t, m, "model.layers.0.conv.conv.weight")
	for _, x := range v {
		sum += float64(x) * float64(x) / float64(len(v))
	}
	if sum < 0.25 || sum > 0.42 {
		t.Errorf("taps have the variance %v, want 1/3", sum)
	}
	dir := t.TempDir()
	if err := WriteDir(dir, c, m, "f32"); err != nil {
		t.Fatal(err)
	}
	sameModel(t, m, open(t, dir))
}
