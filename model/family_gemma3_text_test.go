package model

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// gemmaConfig has the keys and sizes that the published model of 270 million parameters has.
const gemmaConfig = `{"architectures":["Gemma3ForCausalLM"],"model_type":"gemma3_text","hidden_size":640,"intermediate_size":2048,
"num_hidden_layers":18,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":256,"vocab_size":262144,"max_position_embeddings":32768,
"hidden_activation":"gelu_pytorch_tanh","query_pre_attn_scalar":256,"sliding_window":512,"_sliding_window_pattern":6,"rms_norm_eps":1e-06,
"rope_theta":1000000.0,"rope_local_base_freq":10000.0,"rope_scaling":null,"attention_bias":false,"attention_dropout":0.0,
"attn_logit_softcapping":null,"final_logit_softcapping":null,"use_bidirectional_attention":false,
"bos_token_id":2,"eos_token_id":1,"pad_token_id":0}`

func TestGemmaConfig(t *testing.T) {
	c, err := ParseConfig([]byte(gemmaConfig))
	if err != nil {
		t.Fatal(err)
	}
	if n := c.Parameters(); n != 268_098_176 {
		t.Errorf("%d parameters", n)
	}
	local := c.LocalRope()
	if c.RopeTheta != 1e6 || local == nil || local.RopeTheta != 1e4 || !c.TieEmbeddings || c.Foreign.Refuse() != nil {
		t.Errorf("base %v, local %+v, tied %t, %v", c.RopeTheta, local, c.TieEmbeddings, c.Foreign.Refuse())
	}
	if c.EmbeddingScale != math.Sqrt(640) || c.AttentionScale != 1./16 {
		t.Errorf("factors %v of embeddings, %v of scores", c.EmbeddingScale, c.AttentionScale)
	}
	var windows []int
	for layer := range 12 {
		windows = append(windows, c.Window(layer))
	}
	if want := []int{512, 512, 512, 512, 512, 0, 512, 512, 512, 512, 512, 0}; !slices.Equal(windows, want) {
		t.Errorf("windows %v, want %v", windows, want)
	}
	newer := strings.Replace(gemmaConfig, `"rope_theta":1000000.0,"rope_local_base_freq":10000.0,"rope_scaling":null`,
		`"rope_parameters":{"full_attention":{"rope_theta":1000000.0,"rope_type":"linear","factor":8},
		"sliding_attention":{"rope_theta":500.0,"rope_type":"default"}}`, 1)
	c, err = ParseConfig([]byte(newer))
	if err != nil || c.RopeScaling == nil || c.RopeScaling.Factor != 8 || c.LocalRopeTheta != 500 || c.LocalRope().RopeScaling != nil {
		t.Errorf("rope_parameters by layer type: %+v, %v", c, err)
	}
	for _, other := range []struct{ was, is, want string }{
		{`gelu_pytorch_tanh`, `gelu`, `hidden_activation "gelu"`},
		{`"final_logit_softcapping":null`, `"final_logit_softcapping":30.0`, "final_logit_softcapping 30.0"},
		{`"use_bidirectional_attention":false`, `"use_bidirectional_attention":true`, "use_bidirectional_attention"},
	} {
		c, err := ParseConfig([]byte(strings.Replace(gemmaConfig, other.was, other.is, 1)))
		if err != nil || c.Foreign.Refuse() == nil || !strings.HasPrefix(c.Foreign.Refuse().Error(), other.want+": the embedded engine") {
			t.Errorf("%s: %v, %+v", other.is, err, c)
		}
	}
	for _, bad := range []struct{ was, is, want string }{
		{`"rope_local_base_freq":10000.0`, `"rope_local_base_freq":-1`, "rope_local_base_freq is -1"},
		{`"query_pre_attn_scalar":256`, `"query_pre_attn_scalar":0`, "query_pre_attn_scalar is 0; expected 1e-06"},
		{`"rope_scaling":null`, `"rope_scaling":{"rope_type":"dynamic","factor":2}`, "rope_scaling dynamic is not computed beside layers"},
		{`"num_key_value_heads":1,`, ``, "num_key_value_heads is missing"},
	} {
		_, err := ParseConfig([]byte(strings.Replace(gemmaConfig, bad.was, bad.is, 1)))
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v, want %q", bad.is, err, bad.want)
		}
	}
}

// In a GGUF file norms have their offset, as llama.cpp wants it. They read back as what multiplies by the same numbers.
func TestGemmaGGUF(t *testing.T) {
	m := open(t, "testdata/tiny/gemma3_text")
	path := writeGGUF(t, m, m, "f32")
	file, again := openGGUFFile(t, path), open(t, path)
	if diff := m.Config.Differs(again.Config); diff != "" {
		t.Error(diff)
	}
	for short, long := range map[string]string{
		"attn_norm": "input_layernorm", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
		"post_ffw_norm": "post_feedforward_layernorm",
	} {
		tensor, ok := file.Tensor("blk.5." + short + ".weight")
		if !ok {
			t.Fatalf("%s is missing: %v", short, file.Names())
		}
		stored := make([]float32, tensor.Len())
		if err := tensor.Range(stored, 0); err != nil {
			t.Fatal(err)
		}
		name := "model.layers.5." + long + ".weight"
		was, is := values(t, m, name), values(t, again, name)
		for i := range stored {
			if stored[i] != 1+was[i] || 1+is[i] != stored[i] {
				t.Errorf("%s[%d] is %v, stored %v, read %v", name, i, was[i], stored[i], is[i])
			}
		}
	}
	for _, name := range []string{"model.embed_tokens.weight", "model.layers.3.mlp.up_proj.weight", "model.layers.0.self_attn.q_proj.weight"} {
		if !slices.Equal(values(t, again, name), values(t, m, name)) {
			t.Errorf("%s differs", name)
		}
	}
	for _, other := range []struct{ was, is, want string }{
		{`"query_pre_attn_scalar":256`, `"query_pre_attn_scalar":168`, "a query_pre_attn_scalar other than head_dim"},
		{`"rope_local_base_freq":10000.0`, `"rope_local_base_freq":500`, "a rope_local_base_freq other than 10000"},
		{`"num_hidden_layers":18`, `"num_hidden_layers":62`, "62 layers"},
		{`"sliding_window":512`, `"sliding_window":null`, "sliding windows (sliding_window 0) in these layers"},
		{`"_sliding_window_pattern":6`, `"sliding_window_pattern":5`, "sliding windows (sliding_window 512) in these layers"},
	} {
		c, err := ParseConfig([]byte(strings.Replace(gemmaConfig, other.was, other.is, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.checkGGUF(); err == nil || !strings.Contains(err.Error(), other.want) {
			t.Errorf("%s: %v, want %q", other.is, err, other.want)
		}
	}
}

// Random weights multiply by 1.
func TestGemmaBeginsWithNormsOfZero(t *testing.T) {
	m, err := RandomInit(open(t, "testdata/tiny/gemma3_text").Config, 1, styleFanIn)
	if err != nil {
		t.Fatal(err)
	}
	w := values(t, m, "model.layers.0.pre_feedforward_layernorm.weight")
	if slices.ContainsFunc(w, func(v float32) bool { return v != 0 }) {
		t.Errorf("norm %v", w)
	}
}

// GGUF files hold 1 + w of norms, rounded. What comes back computes with the same factor if that is at least 0.5, though w may differ.
func TestGemmaNormsThroughGGUF(t *testing.T) {
	r, changed := rand.New(rand.NewPCG(1, 2)), 0
	w := make([]float32, 100000)
	for i := range w {
		w[i] = float32(r.ExpFloat64()*0.7 - 0.5)
	}
	given := func(dst []float32, from, to int) error {
		copy(dst, w[from:to])
		return nil
	}
	stored, back := make([]float32, len(w)), make([]float32, len(w))
	write := shifted(given, 1)
	if err := errors.Join(write(stored, 0, len(w)), shifted(write, -1)(back, 0, len(w))); err != nil {
		t.Fatal(err)
	}
	for i, v := range back {
		if v != w[i] {
			changed++
		}
		if 1+v != stored[i] {
			t.Fatalf("w %v is stored as %v, comes back as %v, and computes with %v", w[i], stored[i], v, 1+v)
		}
	}
	if changed == 0 {
		t.Error("no weight has changed: docs/guide/models.md says that some do")
	}
}
