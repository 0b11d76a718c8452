package model

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzModelOfGGUF(f *testing.F) {
	for _, name := range []string{"llama_biases", "qwen2", "qwen3"} {
		seed, err := os.ReadFile(filepath.Join("testdata", "tiny", name+".gguf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	path := filepath.Join(f.TempDir(), "x.gguf")
	f.Fuzz(func(t *testing.T, file []byte) {
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			return
		}
		defer m.Close()
		for _, name := range m.Names() {
			values(t, m, name)
		}
	})
}

func TestGGUFNamesBecomeHuggingFaceNames(t *testing.T) {
	for name, want := range map[string]string{
		"blk.12.attn_q.weight": "model.layers.12.self_attn.q_proj.weight",
		"blk.0.ffn_norm.bias":  "model.layers.0.post_attention_layernorm.bias",
		"blk.x.attn_q.weight":  "blk.x.attn_q.weight",
		"blk.0.attn_sinks":     "blk.0.attn_sinks",
		"blk.0.moe.weight":     "blk.0.moe.weight",
		"output.weight":        "lm_head.weight",
	} {
		if got := (&Config{Architecture: "llama"}).huggingFaceName(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := (&Config{Architecture: "phi3"}).huggingFaceName("blk.3.ffn_up.weight"); got != "model.layers.3.mlp.gate_up_proj.weight" {
		t.Errorf("ffn_up of phi3 is %s", got)
	}
}

// An unsupported option in a GGUF file is an error and not ignored.
func TestGGUFRefusesUnsupportedOptions(t *testing.T) {
	qwen3, err := os.ReadFile("testdata/tiny/qwen3.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[string]string{
		"qwen3:mamba":                         `general.architecture: architecture "mamba" is unknown`,
		"attn_q_norm:attn_s_norm":             "lacks 1 tensors that the config demands: model.layers.0.self_attn.q_norm.weight",
		"qwen3.block_count:qwen3.block_counx": "num_hidden_layers is 0",
		"token_embd:token_embx":               "vocab_size is 0",
	} {
		old, with, _ := strings.Cut(change, ":")
		file := strings.Replace(string(qwen3), old, with, 1)
		path := filepath.Join(t.TempDir(), "x.gguf")
		if err := os.WriteFile(path, []byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", change, err, want)
		}
	}
}
