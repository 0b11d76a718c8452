package cli_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/trinitytest"
)

// completion is a line of trinity generate --json.
type completion struct {
	PromptTokens []int32 `json:"prompt_tokens"`
	Tokens       []int32 `json:"tokens"`
	Text         string  `json:"text"`
}

// answers returns greedy answers to prompts, which are lines for trinity generate.
func answers(t *testing.T, path string, prompts ...string) (list []completion) {
	t.Helper()
	out := trinity(t, strings.Join(prompts, "\n"), "generate", "--model", path, "--input", "-", "--json", "--max-tokens", "16")
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		var c completion
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	if len(list) != len(prompts) {
		t.Fatalf("%d answers to %d prompts", len(list), len(prompts))
	}
	return list
}

// peer returns by how much the logit of each token of the answers is behind the largest of another
// program, whose script is in testdata, and that program's tokens of the texts.
func peer(t *testing.T, python, script, path string, list []completion, texts ...string) (behind [][]float64, tokens [][]int32) {
	t.Helper()
	prompts, replies := [][]int32{}, [][]int32{}
	for _, c := range list {
		prompts, replies = append(prompts, c.PromptTokens), append(replies, c.Tokens)
	}
	input, err := json.Marshal(map[string]any{"model": path, "prompts": prompts, "answers": replies, "texts": texts})
	if err != nil {
		t.Fatal(err)
	}
	if script, err = filepath.Abs(filepath.Join("testdata", script)); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, script)
	cmd.Dir, cmd.Stdin, cmd.Stderr = t.TempDir(), bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, stderr.String())
	}
	var got struct {
		Behind [][]float64
		Texts  [][]int32
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got.Behind, got.Texts
}

// compare fails unless the other program chooses the tokens of the answers. It may prefer another token by
// at most near, in at most a tenth of the tokens.
func compare(t *testing.T, what string, behind [][]float64, near float64) {
	t.Helper()
	total, other := 0, 0
	for i, answer := range behind {
		for k, by := range answer {
			total++
			if by > 0 {
				other++
			}
			if !(by <= near) {
				t.Errorf("%s: the peer prefers another token %d of answer %d, whose logit is greater by %v", what, k, i, by)
			}
		}
	}
	if other > total/10 {
		t.Errorf("%s: the peer prefers another token at %d of %d places", what, other, total)
	}
}

// llama.cpp gives the answers of this engine with every type of file. With 8 or 4 bits llama.cpp
// rounds the inputs of its products to 8 bits, too, so a token may win that is almost as likely.
func TestLlamaCppGivesTheSameAnswers(t *testing.T) {
	source := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if source == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the SmolLM2-135M-Instruct GGUF file")
	}
	python := trinitytest.Python(t, "TRINITY_PYTHON", "llama_cpp")
	texts := []string{"The quick brown fox", "def add(a, b):\n", "Größe: 12345 naïve…", "<|im_start|>user\nIt's 7\u00a0o'clock  <|im_end|>"}
	prompts := []string{
		`{"messages":[{"role":"user","content":"What is the capital of France?"}]}`,
		`{"messages":[{"role":"user","content":"Write one sentence about 3 cats."}]}`,
		`{"messages":[{"role":"user","content":"12+34=?"}]}`,
	}
	for _, text := range texts {
		line, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		prompts = append(prompts, string(line))
	}
	directory := filepath.Join(t.TempDir(), "directory") // has a tokenizer.json, from which convert writes the vocabulary
	trinity(t, "", "convert", source, "--output", directory)
	for dtype, near := range map[string]float64{"f32": 0, "q8_0": 0.25, "q4_1": 0.25} {
		path := filepath.Join(t.TempDir(), dtype+".gguf")
		trinity(t, "", "convert", directory, "--output", path, "--dtype", dtype)
		ours := answers(t, path, prompts...)
		if dtype == "f32" && ours[0].Text != "The capital of France is Paris." {
			t.Errorf("the answer is %q", ours[0].Text)
		}
		behind, tokens := peer(t, python, "answers_llama.py", path, ours, texts...)
		compare(t, dtype, behind, near)
		for i, text := range texts {
			if want := ours[len(ours)-len(texts)+i].PromptTokens; !slices.Equal(tokens[i], want) {
				t.Errorf("%s: %q gives llama.cpp the tokens %v, want %v", dtype, text, tokens[i], want)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// PEFT opens adapters by the base that they name, from any directory, also if the run's base was a
// GGUF file that convert has written as a directory.
func TestPEFTOpensAdapters(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_PYTHON", "peft")
	dir := tiny(t)
	file, base := filepath.Join(dir, "model.gguf"), filepath.Join(dir, "base")
	trinity(t, "", "convert", filepath.Join(dir, "model"), "--output", file)
	trinity(t, "", "convert", file, "--output", base)
	trinity(t, "", "run", "--config", "testdata/sft.yaml", "name=gguf", "checkpoint_root_dir="+dir, "model.model_path="+file,
		"buffer.trainer_input.experience_buffer.path=../../examples/quickstart/data/sft.jsonl",
		"model.lora_configs=[{lora_rank: 4, lora_alpha: 64, base_model_name: "+base+"}]")
	for _, adapter := range []string{filepath.Join(dir, "adapter"), filepath.Join(dir, "cli/gguf/global_step_2/actor/lora_adapter")} {
		ours := answers(t, adapter, `{"text":"12+34=?"}`, `{"text":"7+5"}`)
		behind, _ := peer(t, python, "answers_peft.py", adapter, ours)
		compare(t, adapter, behind, 1e-4)
	}
}

// noise is a model with random weights, norms and biases.
type noise struct{ *model.Config }

// Names implements model.Source.
func (n noise) Names() (names []string) {
	for _, spec := range n.Tensors() {
		names = append(names, spec.Name)
	}
	return names
}

// Tensor implements model.Source.
func (n noise) Tensor(name string) (model.Tensor, error) {
	specs := n.Tensors()
	spec := specs[slices.IndexFunc(specs, func(s model.TensorSpec) bool { return s.Name == name })]
	mean, scale, columns := 0.0, 0.3, 1
	if len(spec.Shape) == 2 {
		columns = spec.Shape[1]
		scale = 1 / math.Sqrt(float64(columns))
	} else if strings.HasSuffix(name, "norm.weight") {
		mean = 1
	}
	return model.NewTensor(name, spec.Shape, func(dst []float32, from, _ int) error {
		h := fnv.New64()
		_, _ = h.Write([]byte(name)) // never fails
		for i := range dst {
			r := rand.New(rand.NewPCG(h.Sum64(), uint64(from*columns+i)))
			dst[i] = float32(mean + scale*r.NormFloat64())
		}
		return nil
	}), nil
}

// llama.cpp computes every architecture that convert writes as this engine does.
func TestLlamaCppComputesEveryArchitecture(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_PYTHON", "llama_cpp")
	text, err := tokenizer.Load("../../examples/quickstart/model")
	if err != nil {
		t.Fatal(err)
	}
	const sizes = `"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,
		"vocab_size":272,"max_position_embeddings":256,"eos_token_id":258,`
	for name, config := range map[string]string{
		"llama": `"model_type":"llama","attention_bias":true,"mlp_bias":true`,
		"llama 3": `"model_type":"llama","tie_word_embeddings":true,"rope_theta":500000,"rope_scaling":{"rope_type":"llama3","factor":8,
			"low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":32}`,
		"linear":  `"model_type":"llama","rope_scaling":{"rope_type":"linear","factor":4}`,
		"mistral": `"model_type":"mistral","sliding_window":null,"head_dim":32`,
		"qwen2":   `"model_type":"qwen2"`,
		"yarn":    `"model_type":"qwen2","rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":64}`,
		"qwen3":   `"model_type":"qwen3","head_dim":32,"tie_word_embeddings":true`,
	} {
		cfg, err := model.ParseConfig([]byte("{" + sizes + config + "}"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		dir := filepath.Join(t.TempDir(), "model")
		if err := model.WriteDir(dir, cfg, noise{cfg}, "f32"); err != nil {
			t.Fatal(err)
		}
		if err := text.WriteFiles(dir); err != nil {
			t.Fatal(err)
		}
		types := map[string]float64{"f32": 1e-4}
		if name == "llama" { // llama.cpp also rounds the inputs of products
			types = map[string]float64{"f32": 1e-4, "f16": 0.01, "bf16": 0.1, "q8_0": 0.2, "q4_1": 0.2}
		}
		for dtype, near := range types {
			path := filepath.Join(t.TempDir(), dtype+".gguf")
			trinity(t, "", "convert", dir, "--output", path, "--dtype", dtype)
			source := path
			if dtype == "f32" {
				source = dir
			}
			ours := answers(t, source, `{"text":"12+34=?"}`, `{"text":"The quick brown fox jumps over it."}`)
			behind, _ := peer(t, python, "answers_llama.py", path, ours)
			compare(t, name+" "+dtype, behind, near)
		}
	}
}

// llama.cpp finds the tokens of every kind of tokenizer that convert writes.
func TestLlamaCppFindsTheSameTokens(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_PYTHON", "llama_cpp")
	texts := []string{
		"The quick brown fox's 12345 jumps… I'LL go", "Größe naïve 東京 🦊", "a  b\n\n  c\t d ", "x = [1, 2];\r\nif (y) { return; }",
		"<|eot_id|>hi<|im_end|> <s>",
	}
	for name, bos := range map[string]string{"smollm": "", "qwen2": "", "llama3": "<|begin_of_text|>", "llama2": "<s>"} {
		dir := filepath.Join(t.TempDir(), name)
		writeTokenizer(t, dir, name, bos)
		text, err := tokenizer.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := model.ParseConfig(fmt.Appendf(nil, `{"model_type":"llama","hidden_size":32,"intermediate_size":32,"num_hidden_layers":1,
			"num_attention_heads":2,"num_key_value_heads":2,"vocab_size":%d,"max_position_embeddings":256,"eos_token_id":2}`, text.VocabSize()+2))
		if err != nil {
			t.Fatal(err)
		}
		if err := model.WriteDir(dir, cfg, noise{cfg}, "f32"); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "x.gguf")
		trinity(t, "", "convert", dir, "--output", path)
		_, tokens := peer(t, python, "answers_llama.py", path, nil, texts...)
		for i, s := range texts {
			if want := text.Encode(s, true); !slices.Equal(tokens[i], want) {
				t.Errorf("%s: %q gives llama.cpp the tokens %v, want %v", name, s, tokens[i], want)
			}
		}
	}
}

// writeTokenizer writes a tokenizer of testdata of package tokenizer. That of llama2 gets all merges
// that SentencePiece has, for which its ids are the scores.
func writeTokenizer(t *testing.T, dir, name, bos string) {
	t.Helper()
	f, err := os.Open("../model/tokenizer/testdata/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	definition, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	config := fmt.Appendf(nil, `{"bos_token":%q}`, bos)
	for file, content := range map[string][]byte{"tokenizer.json": definition, "tokenizer_config.json": config} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if name != "llama2" {
		return
	}
	text, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	v := tokenizer.Vocabulary{Model: "llama", BOS: 1, EOS: 2, UNK: 0, PAD: -1}
	for id := range int32(text.VocabSize()) {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, text.Token(id)), append(v.Types, 1), append(v.Scores, -float32(id))
	}
	copy(v.Types, []int32{2, 3, 3}) // <unk>, <s>, </s>
	if text, err = tokenizer.FromVocabulary(v); err != nil {
		t.Fatal(err)
	}
	if err := text.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
}
