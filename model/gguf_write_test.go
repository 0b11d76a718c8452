package model

import (
	"bytes"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/gguf"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

func openGGUFFile(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// writeGGUF writes a model without a tokenizer of its own and returns the path.
func writeGGUF(t *testing.T, m *Model, weights Source, dtype string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), dtype+".gguf")
	if err := WriteGGUF(path, m, weights, nil, dtype); err != nil {
		t.Fatal(err)
	}
	return path
}

// The file of a Hugging Face directory has the tensors and the sizes of the file that the gguf
// package wrote of the same model.
func TestGGUFOfADirectoryEqualsTheReference(t *testing.T) {
	for _, name := range []string{"llama_biases", "llama3", "qwen3"} {
		m, want := open(t, "testdata/tiny/"+name), openGGUFFile(t, "testdata/tiny/"+name+".gguf")
		got := openGGUFFile(t, writeGGUF(t, m, m, "f32"))
		a, b := slices.Sorted(slices.Values(got.Names())), slices.Sorted(slices.Values(want.Names()))
		if name != "llama_biases" && !slices.Equal(a, b) { // whose reference lacks the divisors of its scaling
			t.Errorf("%s has the tensors %v, want %v", name, a, b)
		}
		for _, tensor := range want.Names() {
			a, _ := got.Tensor(tensor)
			b, _ := want.Tensor(tensor)
			same := bytes.Equal(a.Data, b.Data)
			if tensor == ropeFactorsName { // computed in another order
				x, y := make([]float32, b.Len()), make([]float32, b.Len())
				same = a.Range(x, 0) == nil && b.Range(y, 0) == nil
				for i := range x {
					same = same && math.Abs(float64(x[i]-y[i])) < 1e-5*float64(y[i])
				}
			}
			if a.Type != b.Type || !slices.Equal(a.Shape, b.Shape) || !same {
				t.Errorf("%s: tensor %s differs from the gguf package's", name, tensor)
			}
		}
		for _, pair := range want.Metadata() {
			if value, _ := got.Value(pair.Key); !reflect.DeepEqual(value, pair.Value) {
				t.Errorf("%s: %s is %v, want %v", name, pair.Key, value, pair.Value)
			}
		}
	}
}

// A model that was written as GGUF and read again is the same model.
func TestGGUFRoundTrip(t *testing.T) {
	for _, path := range []string{"llama", "llama3", "qwen3", "smollm3", "llama3.gguf", "qwen2.gguf", "qwen3.gguf"} {
		m := open(t, "testdata/tiny/"+path)
		again := open(t, writeGGUF(t, m, m, "f32"))
		if diff := m.Config.Differs(again.Config); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
		for _, name := range m.Names() {
			if got, want := values(t, again, name), values(t, m, name); !slices.Equal(got, want) {
				t.Errorf("%s: tensor %s is %v, want %v", path, name, got, want)
			}
		}
	}
}

func TestGGUFOfAMergedAdapter(t *testing.T) {
	base := open(t, "testdata/tiny/llama")
	for _, dir := range []string{"testdata/adapter", "testdata/adapter_head"} {
		merged, err := Merge(base, openAdapter(t, dir, base.Config))
		if err != nil {
			t.Fatal(err)
		}
		again := open(t, writeGGUF(t, merged, merged, "f32"))
		if again.Config.TieEmbeddings != merged.Config.TieEmbeddings || len(again.Names()) != len(merged.Names()) {
			t.Errorf("%s: tied %v, %d tensors", dir, again.Config.TieEmbeddings, len(again.Names()))
		}
		for _, name := range merged.Names() {
			if !slices.Equal(values(t, again, name), values(t, merged, name)) {
				t.Errorf("%s: tensor %s differs from the merged one", dir, name)
			}
		}
	}
}

// wide returns a random model whose rows are whole blocks, but for one matrix of each layer.
func wide(t *testing.T) *Model {
	t.Helper()
	cfg, err := ParseConfig([]byte(`{"model_type":"llama","hidden_size":64,"intermediate_size":80,"num_hidden_layers":1,
		"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":96,"attention_bias":true,"initializer_range":0.5}`))
	if err != nil {
		t.Fatal(err)
	}
	m, err := RandomInit(cfg, 5, styleHF)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGGUFTypesOfTensors(t *testing.T) {
	m := wide(t)
	for dtype, c := range map[string]struct {
		embedding, matrix, down gguf.Type // rows of down have 80 numbers
		fileType                uint32
		error                   float32 // of a weight, relative to the largest of its row
	}{
		"f32":  {gguf.F32, gguf.F32, gguf.F32, 0, 0},
		"f16":  {gguf.F16, gguf.F16, gguf.F16, 1, 1 << 10},
		"bf16": {gguf.BF16, gguf.BF16, gguf.BF16, 32, 1 << 7},
		"q8_0": {gguf.Q8_0, gguf.Q8_0, gguf.F16, 7, 1 << 7},
		"q4_1": {gguf.Q8_0, gguf.Q4_1, gguf.F16, 3, 1 << 3},
	} {
		path := writeGGUF(t, m, m, dtype)
		f := openGGUFFile(t, path)
		for name, want := range map[string]gguf.Type{
			"token_embd.weight": c.embedding, "output.weight": c.embedding, "blk.0.attn_q.weight": c.matrix,
			"blk.0.ffn_up.weight":   c.matrix,
			"blk.0.ffn_down.weight": c.down, "blk.0.attn_norm.weight": gguf.F32, "blk.0.attn_q.bias": gguf.F32,
			"output_norm.weight": gguf.F32,
		} {
			if tensor, ok := f.Tensor(name); !ok || tensor.Type != want {
				t.Errorf("%s: %s is %s, want %s", dtype, name, tensor.Type, want)
			}
		}
		if value, _ := f.Value("general.file_type"); value != c.fileType {
			t.Errorf("%s: general.file_type is %v, want %d", dtype, value, c.fileType)
		}
		again := open(t, path)
		for _, name := range m.Names() {
			got, want := values(t, again, name), values(t, m, name)
			largest := max(slices.Max(want), -slices.Min(want))
			for i := range want {
				if d := got[i] - want[i]; c.error == 0 && d != 0 || c.error > 0 && max(d, -d) > largest/c.error {
					t.Fatalf("%s: %s element %d is %v, want %v", dtype, name, i, got[i], want[i])
				}
			}
		}
	}
}

func TestGGUFRefusesModelsThatLlamaCppLacks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.gguf")
	for name, want := range map[string]string{
		"mistral":   "llama.cpp has no mistral models with sliding windows (sliding_window 5)",
		"qwen2":     "llama.cpp has no qwen2 models with sliding windows (sliding_window 4)",
		"qwen3_moe": "mixtures of experts are written as Hugging Face directories only",
	} {
		m := open(t, "testdata/tiny/"+name)
		if err := WriteGGUF(path, m, m, nil, "f32"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", name, err, want)
		}
	}
	m := wide(t)
	m.Config.RopeScaling = &RopeScaling{Type: "dynamic", Factor: 2}
	if err := WriteGGUF(path, m, m, nil, "f32"); err == nil || !strings.Contains(err.Error(), "this rope_scaling (dynamic)") {
		t.Errorf("dynamic scaling: error %v", err)
	}
	err := WriteGGUF(path, wide(t), wide(t), nil, "q2_k")
	if err == nil || !strings.Contains(err.Error(), "expected one of bf16, f16, f32, q4_1, q8_0") {
		t.Errorf("q2_k: error %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%v was written in spite of the errors", left)
	}
}

// A written file lists every token that ends a reply: first the tokenizer's, then the config's.
func TestGGUFNamesTheEndTokens(t *testing.T) {
	yes := true
	v := &tokenizer.Vocabulary{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a", "b", "c", "d"}, Types: []int32{1, 3, 3, 3},
		BOS: -1, EOS: 2, UNK: -1, PAD: -1, AddBOS: &yes, ChatTemplate: "{{ x }}"}
	cfg := &Config{BOS: []int32{1}, EOS: []int32{3, 2, 1}, PAD: []int32{0}}
	pairs, err := cfg.vocabularyPairs(v)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, p := range pairs {
		got[strings.TrimPrefix(p.Key, "tokenizer.ggml.")] = p.Value
	}
	for key, want := range map[string]any{
		"model": "gpt2", "pre": "gpt-2", "tokens": v.Tokens, "token_type": v.Types, "bos_token_id": uint32(1),
		"eos_token_id": uint32(2), "eot_token_id": uint32(3), "eom_token_id": uint32(1), "padding_token_id": uint32(0),
		"add_bos_token":           true,
		"merges":                  []string{},
		"tokenizer.chat_template": "{{ x }}",
	} {
		if !reflect.DeepEqual(got[key], want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if len(got) != 12 {
		t.Errorf("%d entries, want 12: %v", len(got), got)
	}
	cfg.EOS = []int32{0, 1, 3}
	if _, err := cfg.vocabularyPairs(v); err == nil || !strings.Contains(err.Error(), "the end tokens [2 0 1 3]; a GGUF file names") {
		t.Errorf("four end tokens: error %v", err)
	}
	cfg.EOS, v.EOS = nil, -1
	if _, err := cfg.vocabularyPairs(v); err == nil || !strings.Contains(err.Error(), "no end token: set eos_token_id in config.json") {
		t.Errorf("no end token: error %v", err)
	}
}

// A file without a key of its tokenizer is refused by the key: its texts would become other tokens.
func TestGGUFWithoutAKeyOfItsTokenizerIsRefused(t *testing.T) {
	tiny := openGGUFFile(t, "testdata/tiny/qwen3.gguf")
	var tensors []gguf.Entry
	for _, name := range tiny.Names() {
		tensor, _ := tiny.Tensor(name)
		tensors = append(tensors, gguf.Entry{Name: name, Type: tensor.Type, Shape: tensor.Shape, Write: func(w io.Writer) error {
			_, err := w.Write(tensor.Data)
			return err
		}})
	}
	tokens := make([]string, 10)
	for i := range tokens {
		tokens[i] = string(rune('a' + i))
	}
	key := func(name string) string { return "tokenizer.ggml." + name }
	for model, values := range map[string]map[string]any{
		"gpt2":  {"pre": "gpt-2", "merges": []string{"a b"}, "token_type": make([]int32, 10)},
		"llama": {"scores": make([]float32, 10), "token_type": make([]int32, 10)},
	} {
		values["tokens"], values["model"], values["eos_token_id"] = tokens, model, uint32(1)
		for _, without := range append(slices.Sorted(maps.Keys(values)), "") {
			if without == "tokens" || without == "eos_token_id" {
				continue
			}
			pairs := slices.DeleteFunc(tiny.Metadata(), func(p gguf.Pair) bool { return strings.HasPrefix(p.Key, key("")) })
			for name, value := range values {
				if name != without {
					pairs = append(pairs, gguf.Pair{Key: key(name), Value: value})
				}
			}
			path := filepath.Join(t.TempDir(), "x.gguf")
			if err := gguf.Write(path, pairs, tensors); err != nil {
				t.Fatal(err)
			}
			m, err := Open(path)
			if err == nil {
				m.Close()
			}
			if want := "metadata " + key(without) + " is missing"; (err == nil) != (without == "") ||
				err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s without %q: error %v", model, without, err)
			}
		}
	}
}

// The real model keeps its metadata, its vocabulary and, as f32, every weight.
func TestSmolLM2RoundTripsThroughGGUF(t *testing.T) {
	source := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if source == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the SmolLM2-135M-Instruct GGUF file")
	}
	m := open(t, source)
	again := open(t, writeGGUF(t, m, m, "f32"))
	if diff := m.Config.Differs(again.Config); diff != "" || !reflect.DeepEqual(m.Config, again.Config) {
		t.Errorf("the config differs: %s", diff)
	}
	if !reflect.DeepEqual(m.Vocabulary(), again.Vocabulary()) {
		t.Error("the vocabulary differs")
	}
	for _, pair := range m.gguf.Metadata() {
		want := pair.Value
		if pair.Key == fileTypeKey {
			want = uint32(0)
		}
		if value, _ := again.gguf.Value(pair.Key); !reflect.DeepEqual(value, want) {
			t.Errorf("%s is %v, want %v", pair.Key, value, want)
		}
	}
	for _, name := range m.Names() {
		if checksum(values(t, again, name)) != checksum(values(t, m, name)) {
			t.Errorf("tensor %s differs", name)
		}
	}
}
