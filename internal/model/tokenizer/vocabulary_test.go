package tokenizer

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// familyVocabulary returns the vocabulary of a GGUF file of the family.
func familyVocabulary(t *testing.T, name string) (Vocabulary, *Tokenizer) {
	reference := family(t, name)
	v := Vocabulary{Tokens: slices.Clone(reference.tokens), BOS: -1, EOS: -1, UNK: -1, PAD: -1}
	v.Types = slices.Repeat([]int32{1}, len(v.Tokens))
	for _, a := range reference.definition.AddedTokens {
		v.Types[a.ID] = typeUserDefined
		if a.Special {
			v.Types[a.ID] = typeControl
		}
	}
	return v, reference
}

// Each value of tokenizer.ggml.pre gives the pre-tokenizer of a recorded family.
func TestPreKindsMatchTheirFamilies(t *testing.T) {
	texts := referenceTexts(t)
	for pre, name := range map[string]string{"smollm": "smollm", "qwen2": "qwen2", "llama-bpe": "llama3"} {
		v, reference := familyVocabulary(t, name)
		v.Model, v.Pre, v.AddBOS = "gpt2", pre, new(bool)
		for _, m := range reference.definition.Model.Merges {
			v.Merges = append(v.Merges, m[0]+" "+m[1])
		}
		tok, err := FromVocabulary(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if got, want := tok.Encode(text, true), reference.Encode(text, false); !slices.Equal(got, want) {
				t.Fatalf("pre %s: %q gives %v, the reference has %v", pre, text, got, want)
			}
		}
	}
}

// sentencePiece returns the tokenizer of a GGUF file with SentencePiece's scores.
func sentencePiece(t *testing.T) *Tokenizer {
	t.Helper()
	v, _ := familyVocabulary(t, "llama2")
	v.Model, v.BOS, v.UNK = "llama", 1, 0
	v.Scores = make([]float32, len(v.Tokens))
	for i := range v.Scores {
		v.Scores[i] = -float32(i)
	}
	tok, err := FromVocabulary(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSentencePieceVocabularyEncodes(t *testing.T) {
	tok, reference := sentencePiece(t), family(t, "llama2")
	for _, text := range referenceTexts(t) {
		got, want := tok.Encode(text, true), reference.Encode(text, true)
		if !slices.Equal(got, want) {
			t.Fatalf("%q gives %v, the reference has %v", text, got, want)
		}
		if a, b := tok.Decode(got, true), reference.Decode(want, true); a != b {
			t.Fatalf("%v gives %q, the reference %q", got, a, b)
		}
	}
}

// transformers reads the files of WriteFiles and gets the same ids.
func TestTransformersReadsWrittenFiles(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_PYTHON", "transformers")
	v, _ := familyVocabulary(t, "llama3")
	v.Model, v.Pre, v.BOS, v.EOS = "gpt2", "llama-bpe", int32(len(v.Tokens)-4), int32(len(v.Tokens)-3)
	tok, err := FromVocabulary(v)
	if err != nil {
		t.Fatal(err)
	}
	dir, text := t.TempDir(), "It's 12345 <|eot_id|> Grüße"
	if err := tok.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", `import json, sys
from transformers import AutoTokenizer
t = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps(t(sys.argv[2]).input_ids + [t.eos_token_id]))`, dir, text)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []int32
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	if got := append(tok.Encode(text, true), tok.EOS()); !slices.Equal(got, want) {
		t.Errorf("%v, transformers have %v", got, want)
	}
}

func TestVocabularyErrorsNameTheCause(t *testing.T) {
	good := func() Vocabulary {
		return Vocabulary{Model: "gpt2", Pre: "gpt-2", Tokens: []string{"a", "b", "ab"}, Merges: []string{"a b"}, BOS: -1,
			EOS: -1, UNK: -1, PAD: -1}
	}
	if _, err := FromVocabulary(good()); err != nil {
		t.Fatal(err)
	}
	yes := true
	for want, spoil := range map[string]func(*Vocabulary){
		`pre is "ancient"; known are command-r, deepseek-r1-qwen, default`: func(v *Vocabulary) { v.Pre = "ancient" },
		`model is "bert"`:                    func(v *Vocabulary) { v.Model = "bert" },
		`0 tokens`:                           func(v *Vocabulary) { v.Tokens = nil },
		`merges[0] is "ab"`:                  func(v *Vocabulary) { v.Merges[0] = "ab" },
		`model.merges[0]: "a", "c" or "ac"`:  func(v *Vocabulary) { v.Merges[0] = "a c" },
		`EOS is id 3`:                        func(v *Vocabulary) { v.EOS = 3 },
		`tokens 0 and 1 are both "a"`:        func(v *Vocabulary) { v.Tokens[1] = "a" },
		`token 1 is "\xff"`:                  func(v *Vocabulary) { v.Tokens[1] = "\xff" },
		`1 token types for 3 tokens`:         func(v *Vocabulary) { v.Types = []int32{1} },
		`the file adds a BOS to texts`:       func(v *Vocabulary) { v.AddBOS = &yes },
		`a llama model merges by score, but`: func(v *Vocabulary) { v.Model, v.AddBOS, v.Scores = "llama", new(bool), make([]float32, 3) },
		`0 scores for 3 tokens`:              func(v *Vocabulary) { v.Model, v.AddBOS = "llama", new(bool) },
	} {
		v := good()
		spoil(&v)
		if _, err := FromVocabulary(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %q in it", err, want)
		}
	}
}
