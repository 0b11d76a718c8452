package model

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var tiny = []string{"llama", "llama_biases", "llama3", "mistral", "qwen2", "qwen3", "qwen3_moe", "smollm3", "gemma3_text", "olmo3"}

func open(t *testing.T, path string) *Model {
	t.Helper()
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func values(t *testing.T, m *Model, name string) []float32 {
	t.Helper()
	tensor, err := m.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	v := make([]float32, tensor.Len())
	if err := tensor.Float32(v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The package reads directories that transformers saved, and writes the same bytes.
func TestDirectoriesOfTransformersRoundTrip(t *testing.T) {
	for _, name := range tiny {
		t.Run(name, func(t *testing.T) {
			from := filepath.Join("testdata", "tiny", name)
			m := open(t, from)
			if m.Dir() != from || m.Config.Architecture != map[bool]string{true: "llama", false: name}[strings.HasPrefix(name, "llama")] {
				t.Errorf("%s is a %s", m.Dir(), m.Config.Architecture)
			}
			to, dtype := filepath.Join(t.TempDir(), "copy"), "f32"
			if name == "mistral" {
				dtype = "bf16"
			}
			if err := WriteDir(to, m.Config, m, dtype); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"config.json", "generation_config.json"} {
				if got, want := readJSON(t, filepath.Join(to, file)), readJSON(t, filepath.Join(from, file)); !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v\nwant %v", file, got, want)
				}
			}
			if name == "qwen2" { // transformers saved it in shards
				again := open(t, to)
				for _, tensor := range m.Names() {
					if !reflect.DeepEqual(values(t, again, tensor), values(t, m, tensor)) {
						t.Errorf("%s differs", tensor)
					}
				}
				return
			}
			got, _ := os.ReadFile(filepath.Join(to, "model.safetensors"))
			want, _ := os.ReadFile(filepath.Join(from, "model.safetensors"))
			if !bytes.Equal(got, want) {
				t.Errorf("model.safetensors differs: %d bytes, want %d", len(got), len(want))
			}
		})
	}
}

func readJSON(t *testing.T, path string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// A GGUF file gives the same weights and names as the directory from which it was made.
func TestGGUFEqualsDirectory(t *testing.T) {
	for _, name := range []string{"llama_biases", "llama3", "qwen2", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			dir, file := open(t, filepath.Join("testdata", "tiny", name)), open(t, filepath.Join("testdata", "tiny", name+".gguf"))
			if file.Vocabulary() != nil || file.Dir() != "" {
				t.Errorf("vocabulary %v, directory %q", file.Vocabulary(), file.Dir())
			}
			a, b := *dir.Config, *file.Config
			for _, c := range []*Config{&a, &b} { // GGUF cannot express these
				c.Raw, c.RawGeneration, c.BOS, c.EOS, c.SlidingWindow, c.SlidingLayers = nil, nil, nil, nil, 0, nil
				if name != "llama3" {
					c.RopeScaling = nil
				}
			}
			if !reflect.DeepEqual(a, b) {
				t.Errorf("config from GGUF %+v\nfrom directory   %+v", b, a)
			}
			for _, tensor := range dir.Names() {
				if got, want := values(t, file, tensor), values(t, dir, tensor); !reflect.DeepEqual(got, want) {
					t.Errorf("%s is %v, want %v", tensor, got, want)
				}
			}
		})
	}
}

// A model that was written out has the same settings; a different model has not.
func TestDiffersFindsOtherSettings(t *testing.T) {
	for _, name := range append([]string{"llama_biases.gguf", "llama3.gguf", "qwen2.gguf", "qwen3.gguf"}, tiny...) {
		m, to := open(t, filepath.Join("testdata", "tiny", name)), filepath.Join(t.TempDir(), "copy")
		if err := WriteDir(to, m.Config, m, "f32"); err != nil {
			t.Fatal(err)
		}
		if got := m.Config.Differs(open(t, to).Config); got != "" {
			t.Errorf("%s and its copy differ: %s", name, got)
		}
	}
	a, b := *open(t, "testdata/tiny/llama").Config, *open(t, "testdata/tiny/llama").Config
	b.EOS, b.RopeTheta = []int32{1}, 7
	if got := a.Differs(&b); !strings.HasPrefix(got, "RopeTheta is 7, not ") {
		t.Errorf("another rope_theta: %q", got)
	}
}

func TestRowsAreSlicesOfTheWhole(t *testing.T) {
	for _, path := range []string{"llama_biases", "llama_biases.gguf"} {
		m := open(t, filepath.Join("testdata", "tiny", path))
		for _, name := range m.Names() {
			tensor, _ := m.Tensor(name)
			whole, n := values(t, m, name), tensor.RowLen()
			for from := range tensor.Shape[0] {
				for to := from; to <= tensor.Shape[0]; to++ {
					part := make([]float32, (to-from)*n)
					if err := tensor.Rows(part, from, to); err != nil || !reflect.DeepEqual(part, append([]float32{}, whole[from*n:to*n]...)) {
						t.Fatalf("%s %s rows %d to %d: %v", path, name, from, to, err)
					}
				}
			}
			if err := tensor.Rows(make([]float32, n), 0, 2); err == nil {
				t.Errorf("%s: two rows fit into one", name)
			}
		}
	}
}

func TestOpenNamesTheError(t *testing.T) {
	const dir = "testdata/tiny/llama_biases"
	config := readJSON(t, filepath.Join(dir, "config.json"))
	for change, want := range map[string]string{
		`{"intermediate_size":16}`:     "tensor model.layers.0.mlp.gate_proj.weight has shape [12 8]; the config demands [16 8]",
		`{"num_hidden_layers":3}`:      "lacks 16 tensors",
		`{"mlp_bias":false}`:           "holds 6 tensors that a llama model of this config does not have: model.layers.0.mlp.down_proj.bias",
		`{"vocab_size":11}`:            "model.embed_tokens.weight has shape [10 8]",
		`{"model_type":"gpt2"}`:        "architecture \"gpt2\" is unknown; known are ",
		`{"eos_token_id":"</s>"}`:      "eos_token_id is \"</s>\"; expected token ids",
		`{"num_attention_heads":"32"}`: "num_attention_heads is \"32\"; expected an integer",
	} {
		changed := map[string]any{}
		for k, v := range config {
			changed[k] = v
		}
		if err := json.Unmarshal([]byte(change), &changed); err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		text, _ := json.Marshal(changed)
		weights, _ := os.ReadFile(filepath.Join(dir, "model.safetensors"))
		for file, content := range map[string][]byte{"config.json": text, "model.safetensors": weights} {
			if err := os.WriteFile(filepath.Join(to, file), content, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(to); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), to) {
			t.Errorf("%s: error %v\nwant one about %q that names the directory", change, err, want)
		}
	}
	if _, err := Open(filepath.Join(dir, "config.json")); err == nil ||
		!strings.Contains(err.Error(), "neither a model directory nor a .gguf file") {
		t.Errorf("a JSON file: %v", err)
	}
}

// Tied checkpoints may still contain the head.
func TestOpenToleratesRedundantTensors(t *testing.T) {
	cfg := *open(t, "testdata/tiny/llama").Config
	untied := cfg
	untied.TieEmbeddings = false
	for name, want := range map[string]bool{"lm_head.weight": true, "model.layers.0.self_attn.rotary_emb.inv_freq": true,
		"model.norm.bias": false} {
		if ignorable(&cfg, name) != want {
			t.Errorf("tied: %s ignorable: %v", name, !want)
		}
	}
	if ignorable(&untied, "lm_head.weight") {
		t.Error("untied: the head is ignored")
	}
}
