package model

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// compositeOf copies the tiny gemma3_text as the text part of a gemma3, with tensors that read images. prefix begins
// the names of the text part, and head is that of the vocabulary projection.
func compositeOf(t *testing.T, prefix, head string, change func(config map[string]any)) string {
	t.Helper()
	dir := renamed(t, "gemma3_text", func(name string) string {
		if name == headName {
			return head
		}
		return prefix + strings.TrimPrefix(name, bodyPrefix)
	})
	path := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var inner map[string]any
	if err := json.Unmarshal(text, &inner); err != nil {
		t.Fatal(err)
	}
	delete(inner, "architectures")
	whole := map[string]any{
		"model_type": "gemma3", "architectures": []string{"Gemma3ForConditionalGeneration"}, "text_config": inner,
		"vision_config": map[string]any{"hidden_size": 8}, "eos_token_id": []int{1, 7},
	}
	delete(inner, "eos_token_id")
	if change != nil {
		change(whole)
	}
	if text, err = json.Marshal(whole); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The text part of a model of text and images is opened as a text model, and saved as one.
func TestTextPartOfAComposite(t *testing.T) {
	want := open(t, "testdata/tiny/gemma3_text")
	for prefix, head := range map[string]string{"model.language_model.": headName, "language_model.model.": "language_model." + headName} {
		m := open(t, compositeOf(t, prefix, head, nil))
		if m.Config.PartOf != "gemma3" || m.Config.Architecture != "gemma3_text" || want.Config.Differs(m.Config) != "" {
			t.Fatalf("%s: the config is %+v", prefix, m.Config)
		}
		if !reflect.DeepEqual(m.Config.EOS, []int32{1, 7}) {
			t.Errorf("%s: end tokens %v", prefix, m.Config.EOS)
		}
		if notes := m.Config.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "the text part (gemma3_text) of a gemma3") {
			t.Errorf("notes %q", notes)
		}
		dir := t.TempDir()
		if err := WriteDir(dir, m.Config, m, "f32"); err != nil {
			t.Fatal(err)
		}
		saved := open(t, dir)
		if saved.Config.PartOf != "" || saved.Config.Raw["vision_config"] != nil {
			t.Errorf("the saved config is %v", saved.Config.Raw)
		}
		for _, name := range want.Names() {
			if !reflect.DeepEqual(values(t, saved, name), values(t, want, name)) {
				t.Errorf("%s: tensor %s has other numbers", prefix, name)
			}
		}
	}
}

// Tensors that read images are left out, of a model that only other engines compute, too.
func TestTensorsOfImagesAreLeftOut(t *testing.T) {
	dir := compositeOf(t, "model.language_model.", headName, func(whole map[string]any) {
		whole["model_type"], whole["text_config"].(map[string]any)["model_type"] = "qwen3_5", "qwen3_5_text"
		delete(whole["text_config"].(map[string]any), "layer_types")
	})
	dir = renamedIn(t, dir, func(name string) string {
		return strings.Replace(name, "model.language_model.norm.weight", "model.visual.norm.weight", 1)
	})
	cfg, err := ReadConfig(dir)
	if err != nil || cfg.Foreign == nil || cfg.PartOf != "qwen3_5" {
		t.Fatalf("%+v, %v", cfg, err)
	}
	for _, s := range cfg.Foreign.Tensors {
		if !strings.HasPrefix(s.Name, bodyPrefix) || strings.Contains(s.Name, "visual") || strings.Contains(s.Name, "language_model") {
			t.Errorf("tensor %s", s.Name)
		}
	}
	if n := len(cfg.Foreign.Tensors); n < 10 {
		t.Errorf("%d tensors", n)
	}
}

func TestCompositesThatAreRefused(t *testing.T) {
	for want, change := range map[string]func(map[string]any){
		"text_config is missing or is no object; a gemma3 has its text part there": func(c map[string]any) { c["text_config"] = 3 },
		`architectures is "Gemma3ForSequenceClassification"; the text part of a gemma3`: func(c map[string]any) {
			c["architectures"] = []string{"Gemma3ForSequenceClassification"}
		},
		"tie_word_embeddings is false, and true in text_config; they must agree": func(c map[string]any) {
			c["tie_word_embeddings"], c["text_config"].(map[string]any)["tie_word_embeddings"] = false, true
		},
		"quantization_config: quantised": func(c map[string]any) { c["quantization_config"] = map[string]any{"bits": 4} },
		`text_config: model_type is "llama"; the text part of a gemma3 is a gemma3_text`: func(c map[string]any) {
			c["text_config"].(map[string]any)["model_type"] = "llama"
		},
		`model_type is "qwen3"; the text part of a mistral3 is a mistral or a ministral3`: func(c map[string]any) {
			c["model_type"], c["text_config"].(map[string]any)["model_type"] = "mistral3", "qwen3"
		},
	} {
		_, err := Open(compositeOf(t, "model.language_model.", headName, change))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.json") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	_, err := Open(compositeOf(t, "model.text.", headName, nil))
	if err == nil || !strings.Contains(err.Error(), "lacks") {
		t.Errorf("other names: %v", err)
	}
}

// Sizes that files of Gemma 3 leave out are those of transformers.
func TestSizesThatACompositeLeavesOut(t *testing.T) {
	c, err := ParseConfig([]byte(`{"model_type":"gemma3","text_config":{"hidden_size":2560,"intermediate_size":10240,
		"num_hidden_layers":34,"rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024},"eos_token_id":[1,106]}`))
	if err != nil || c.NumHeads != 8 || c.NumKVHeads != 4 || c.VocabSize != 262208 || c.HiddenSize != 2560 || c.Foreign != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// A critic and a reward model are refused where transformers has no class that opens them.
func TestHeadsThatTransformersLacks(t *testing.T) {
	const all = `import json, sys
from transformers.models.auto import modeling_auto as m
print(json.dumps({"ForSequenceClassification": list(m.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.values()),
    "ForTokenClassification": list(m.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES.values())}))`
	for name, f := range families {
		c := &Config{Architecture: name}
		for _, h := range bothHeads {
			if _, err := c.WithHead(h); (err != nil) != f.classes.lack(h) {
				t.Errorf("%s with %v: %v", name, h, err)
			}
		}
	}
	python := os.Getenv("TRINITY_COMPAT_PYTHON")
	if python == "" {
		t.Skip("TRINITY_COMPAT_PYTHON names no Python with transformers")
	}
	out, err := exec.Command(python, "-c", all).Output()
	if err != nil {
		t.Fatal(err)
	}
	classes := map[string][]string{}
	if err := json.Unmarshal(out, &classes); err != nil {
		t.Fatal(err)
	}
	for name, f := range families {
		for _, h := range bothHeads {
			has := false
			for _, class := range classes[h.String()] {
				has = has || class == f.className(h)
			}
			if has == f.classes.lack(h) {
				t.Errorf("transformers has %s: %t, but %s lacks it: %t", f.className(h), has, name, f.classes.lack(h))
			}
		}
	}
}
