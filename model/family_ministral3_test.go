package model

import (
	"math"
	"strings"
	"testing"
)

const ministral3Config = `{"model_type":"ministral3","hidden_size":32,"intermediate_size":40,"num_hidden_layers":2,"num_attention_heads":4,
"num_key_value_heads":2,"head_dim":16,"vocab_size":64,"max_position_embeddings":64,
"rope_parameters":{"rope_type":"yarn","rope_theta":1000000.0,"factor":8.0,"original_max_position_embeddings":8,"max_position_embeddings":64,
"beta_fast":4.0,"beta_slow":1.0,"mscale":1.0,
"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1}}`

func TestMinistral3Config(t *testing.T) {
	c, err := ParseConfig([]byte(ministral3Config))
	if err != nil || c.Foreign != nil {
		t.Fatal(err, c.Foreign)
	}
	for position, want := range map[int]float64{0: 1, 7: 1, 8: 1 + 0.1*math.Log(2), 63: 1 + 0.1*math.Log(8)} {
		if got := c.RopeScaling.QueryScale(position); math.Abs(float64(got)-want) > 1e-7 {
			t.Errorf("the factor at position %d is %v, want %v", position, got, want)
		}
	}
	if _, scale := c.InverseFrequencies(0); scale != 1 || c.SlidingWindow != 0 || c.RMSNormEps != 1e-5 {
		t.Errorf("factor on cos and sin %v, window %d, eps %v", scale, c.SlidingWindow, c.RMSNormEps)
	}
	for _, bad := range []struct{ was, is, want string }{
		{`"yarn"`, `"linear"`, `type "linear" is unknown for ministral3, expected yarn`},
		{`"rope_parameters"`, `"rope"`, "rope_parameters is missing"},
		{`0.1}`, `-0.1}`, "llama_4_scaling_beta is -0.1"},
		{`"num_key_value_heads":2,`, ``, "num_key_value_heads is missing"},
	} {
		refuses(t, ministral3Config, bad.was, bad.is, bad.want)
	}
	other, err := ParseConfig([]byte(strings.Replace(ministral3Config, "ministral3", "mistral", 1)))
	if err != nil || !strings.Contains(other.Foreign.Why, "llama_4_scaling_beta") {
		t.Errorf("a mistral with a factor on queries: %v", err)
	}
}

func TestMinistral3GGUF(t *testing.T) {
	c, err := ParseConfig([]byte(ministral3Config))
	if err != nil {
		t.Fatal(err)
	}
	m, err := RandomInit(c, 1, styleHF)
	if err != nil {
		t.Fatal(err)
	}
	path := writeGGUF(t, m, m, "f32")
	for key, want := range map[string]any{
		"general.architecture": "mistral3", "mistral3.attention.temperature_scale": float32(0.1),
		"mistral3.rope.scaling.yarn_beta_fast":      float32(4),
		"mistral3.rope.scaling.yarn_log_multiplier": float32(1), "mistral3.rope.scaling.original_context_length": uint32(8),
	} {
		if value, _ := openGGUFFile(t, path).Value(key); value != want {
			t.Errorf("%s is %v, want %v", key, value, want)
		}
	}
	sameModel(t, m, open(t, path))
	dir := t.TempDir()
	if err := WriteDir(dir, open(t, path).Config, m, "f32"); err != nil {
		t.Fatal(err)
	}
	sameModel(t, m, open(t, dir))
}
