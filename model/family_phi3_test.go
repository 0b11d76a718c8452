package model

import (
	"math"
	"slices"
	"strings"
	"testing"
)

const phi3Config = `{"model_type":"phi3","hidden_size":32,"intermediate_size":40,"num_hidden_layers":2,"num_attention_heads":4,
"num_key_value_heads":2,"vocab_size":64,"max_position_embeddings":1024,"original_max_position_embeddings":256,"rope_theta":10000,
"partial_rotary_factor":0.75,"sliding_window":2048,"tie_word_embeddings":true,
"rope_scaling":{"type":"longrope","short_factor":[1,1.5,2.5],"long_factor":[1,4,16]}}`

func TestPhi3Config(t *testing.T) {
	c, err := ParseConfig([]byte(phi3Config))
	if err != nil {
		t.Fatal(err)
	}
	frequencies, scale := c.InverseFrequencies(0)
	want := []float64{1, math.Pow(1e4, -2./6) / 1.5, math.Pow(1e4, -4./6) / 2.5}
	for i, f := range frequencies {
		if len(frequencies) != 3 || math.Abs(f-want[i]) > 1e-12 {
			t.Fatalf("frequencies %v, want %v", frequencies, want)
		}
	}
	if factor := math.Sqrt(1 + math.Log(4)/math.Log(256)); math.Abs(scale-factor) > 1e-12 {
		t.Errorf("the factor on cos and sin is %v, want %v", scale, factor)
	}
	if c.RotaryDim != 6 || c.RopeScaling.Reach() != 256 || c.Window(1) != 2048 || c.RMSNormEps != 1e-5 {
		t.Errorf("%d rotated, reach %d, window %d, eps %v", c.RotaryDim, c.RopeScaling.Reach(), c.Window(1), c.RMSNormEps)
	}
	old, err := ParseConfig([]byte(strings.Replace(phi3Config, `"type":"longrope"`, `"type":"su"`, 1)))
	if err != nil || c.Differs(old) != "" {
		t.Errorf("su is not longrope: %v", err)
	}
	for _, bad := range []struct{ was, is, want string }{
		{`"longrope"`, `"linear"`, "rope_scaling: type \"linear\" is unknown for phi3"},
		{`[1,1.5,2.5]`, `[1,1.5]`, "short_factor has 2 numbers; expected 3"},
		{`[1,4,16]`, `[1,4,0]`, "long_factor has numbers of 0 or less"},
		{`[1,4,16]`, `4`, "long_factor is 4; expected a list of numbers"},
		{`0.75`, `0.9`, "RoPE rotates 7 of the head's 8 dimensions"},
		{`0.75`, `1.5`, "partial_rotary_factor is 1.5; expected a number above 0"},
		{`"original_max_position_embeddings":256,`, ``, "original_max_position_embeddings is 0"},
	} {
		refuses(t, phi3Config, bad.was, bad.is, bad.want)
	}
}

// refuses holds that a config with one part replaced is an error that says what.
func refuses(t *testing.T, config, was, is, what string) {
	t.Helper()
	_, err := ParseConfig([]byte(strings.Replace(config, was, is, 1)))
	if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s for %s: %v, want one line about %q", is, was, err, what)
	}
}

// sameModel compares configs and weights.
func sameModel(t *testing.T, want, got *Model) {
	t.Helper()
	if diff := want.Config.Differs(got.Config); diff != "" {
		t.Errorf("%s: %s", got.Path(), diff)
	}
	for _, name := range want.Names() {
		if !slices.Equal(values(t, got, name), values(t, want, name)) {
			t.Errorf("%s: tensor %s differs", got.Path(), name)
		}
	}
}

// A GGUF file has phi3's tensors by llama.cpp's names, and gives the same model back.
func TestPhi3GGUF(t *testing.T) {
	c, err := ParseConfig([]byte(phi3Config))
	if err != nil {
		t.Fatal(err)
	}
	m, err := RandomInit(c, 1, styleHF)
	if err != nil {
		t.Fatal(err)
	}
	path := writeGGUF(t, m, m, "f32")
	file := openGGUFFile(t, path)
	for name, shape := range map[string][]int{
		"blk.1.attn_qkv.weight": {64, 32}, "blk.1.ffn_up.weight": {80, 32}, "blk.1.ffn_down.weight": {32, 40},
		"rope_factors_short.weight": {3}, "rope_factors_long.weight": {3},
	} {
		if tensor, ok := file.Tensor(name); !ok || !slices.Equal(tensor.Shape, shape) {
			t.Errorf("tensor %s is %v, want %v", name, tensor.Shape, shape)
		}
	}
	for key, want := range map[string]any{
		"phi3.rope.dimension_count": uint32(6), "phi3.rope.scaling.original_context_length": uint32(256), "phi3.context_length": uint32(1024),
		"phi3.attention.sliding_window": uint32(2048), "phi3.rope.scaling.attn_factor": float32(math.Sqrt(1.25)),
	} {
		if value, _ := file.Value(key); value != want {
			t.Errorf("%s is %v, want %v", key, value, want)
		}
	}
	again := open(t, path)
	sameModel(t, m, again)
	dir := t.TempDir()
	if err := WriteDir(dir, again.Config, again, "f32"); err != nil {
		t.Fatal(err)
	}
	sameModel(t, m, open(t, dir))
	narrow := *c
	narrow.SlidingWindow = 100
	if err := narrow.checkGGUF(); err == nil || !strings.Contains(err.Error(), "sliding_window 100") {
		t.Errorf("a window below the context: %v", err)
	}
}
