package model

import (
	"math"
	"strings"
	"testing"
)

const olmoConfig = `{"architectures":["Olmo3ForCausalLM"],"model_type":"olmo3","hidden_size":32,
"intermediate_size":40,"num_hidden_layers":8,
"num_attention_heads":4,"vocab_size":64,"max_position_embeddings":65536,"sliding_window":16,"rope_theta":500000,
"rope_scaling":{"rope_type":"yarn","factor":8,"original_max_position_embeddings":8192,"beta_fast":32,"beta_slow":1,"attention_factor":1.2}}`

func TestOlmoConfig(t *testing.T) {
	c, err := ParseConfig([]byte(olmoConfig))
	if err != nil {
		t.Fatal(err)
	}
	local := c.LocalRope()
	frequencies, factor := local.InverseFrequencies(0)
	if math.Abs(frequencies[1]-math.Pow(5e5, -2./8)) > 1e-12 || factor != 1 {
		t.Errorf("layers with a window have the frequencies %v and the factor %v", frequencies, factor)
	}
	_, factor = c.InverseFrequencies(0)
	if factor != 1.2 || c.NumKVHeads != 4 || c.RMSNormEps != 1e-5 || c.Window(2) != 16 || c.Window(3) != 0 {
		t.Errorf("factor %v, %d KV heads, eps %v, windows %d, %d", factor, c.NumKVHeads, c.RMSNormEps, c.Window(2), c.Window(3))
	}
	for _, spec := range c.Tensors() {
		switch _, name, _ := strings.Cut(spec.Name, ".layers.0."); {
		case name == "input_layernorm.weight", name == "pre_feedforward_layernorm.weight":
			t.Errorf("the config demands %s", spec.Name)
		case name == "self_attn.q_norm.weight" && spec.Shape[0] != 32:
			t.Errorf("%s has the shape %v", spec.Name, spec.Shape)
		}
	}
	if err := c.checkGGUF(); err == nil || !strings.Contains(err.Error(), "llama.cpp has no olmo3 models with") {
		t.Errorf("GGUF: %v", err)
	}
}
