package model

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// renamed copies a tiny model. Its tensors get the names that rename returns; "" leaves one out.
func renamed(t *testing.T, model string, rename func(string) string) string {
	t.Helper()
	return renamedIn(t, filepath.Join("testdata", "tiny", model), rename)
}

// renamedIn is renamed for the model in a directory.
func renamedIn(t *testing.T, from string, rename func(string) string) string {
	t.Helper()
	to := t.TempDir()
	config, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	length := binary.LittleEndian.Uint64(file)
	header, other := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(file[8:8+length], &header); err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name != "__metadata__" {
			name = rename(name)
		}
		if name != "" {
			other[name] = value
		}
	}
	text, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, strings.Repeat(" ", (8-len(text)%8)%8)...)
	whole := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), file[8+length:]...)
	for name, data := range map[string][]byte{"config.json": config, "model.safetensors": whole} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// Training programs save a model with the names of what wraps it. The numbers are the model's.
func TestWrappedModelsLoad(t *testing.T) {
	layers := func(with string) func(string) string {
		return func(name string) string { return strings.Replace(name, "layers.0.", "layers.0."+with, 1) }
	}
	before := func(with string) func(string) string { return func(name string) string { return with + name } }
	for what, rename := range map[string]func(string) string{
		"DistributedDataParallel": before("module."),
		"torch.compile":           before("_orig_mod."),
		"both":                    before("module._orig_mod."),
		"PEFT":                    before("base_model.model."),
		"PEFT, compiled":          before("_orig_mod.base_model.model."),
		"FSDP": func(name string) string {
			return before("_fsdp_wrapped_module.")(layers("_fsdp_wrapped_module._checkpoint_wrapped_module.")(name))
		},
		"compiled layers":  layers("_orig_mod."),
		"without the head": func(name string) string { return strings.TrimPrefix(name, "model.") },
		"as it is":         before(""),
	} {
		for _, of := range []string{"llama", "llama_biases", "qwen3_moe", "qwen3_moe_fused"} {
			want, got := open(t, filepath.Join("testdata", "tiny", of)), open(t, renamed(t, of, rename))
			for _, name := range want.Names() {
				tensor, err := got.Tensor(name)
				if err != nil || tensor.Name != name || !reflect.DeepEqual(values(t, got, name), values(t, want, name)) {
					t.Errorf("%s, %s: tensor %s is %q, %v", what, of, name, tensor.Name, err)
				}
			}
		}
	}
}

// A tied model may be saved with either name of the one matrix.
func TestTiedModelSavedByItsHead(t *testing.T) {
	want := open(t, "testdata/tiny/llama")
	if !want.Config.TieEmbeddings {
		t.Fatal("the model is not tied")
	}
	for _, prefix := range []string{"", "module."} {
		got := open(t, renamed(t, "llama", func(name string) string {
			switch name {
			case headName:
				return ""
			case embeddingName:
				return prefix + headName
			}
			return prefix + name
		}))
		if !reflect.DeepEqual(values(t, got, embeddingName), values(t, want, embeddingName)) {
			t.Errorf("with %q the embedding has other numbers", prefix)
		}
	}
}

// Other names are named.
func TestForeignNamesAreNamed(t *testing.T) {
	for want, rename := range map[string]func(string) string{
		`its tensors begin with "policy.": save the model without what wraps it`: func(name string) string { return "policy." + name },
		`its tensors begin with "model.text.": save the model`:                   func(name string) string { return "model.text." + name },
		`.q_proj.base_layer.weight is below an adapter of PEFT: merge the adapter (merge_and_unload)`: func(name string) string {
			return "base_model.model." + strings.Replace(name, "q_proj.weight", "q_proj.base_layer.weight", 1)
		},
		"are both model.norm.weight": func(name string) string {
			return strings.Replace(name, "model.layers.0.input_layernorm", "module.model.norm", 1)
		},
	} {
		if _, err := Open(renamed(t, "llama", rename)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
