package tokenizer

import (
	"slices"
	"strings"
	"testing"
)

// A tokenizer that goes into a GGUF file and comes back gives the same ids and texts.
func TestVocabularyOfATokenizerIsTheSameTokenizer(t *testing.T) {
	texts := referenceTexts(t)
	for name, pre := range map[string]string{"smollm": "smollm", "qwen2": "qwen2", "llama3": "llama-bpe", "llama2": ""} {
		reference := family(t, name)
		reference.names.BOS = reference.Token(3000)
		if name == "llama2" {
			reference = sentencePiece(t)
		}
		rows := reference.VocabSize() + 3
		v, err := reference.Vocabulary(rows)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if v.Pre != pre || len(v.Tokens) != rows || len(v.Types) != rows || v.Types[rows-1] != typeUnused {
			t.Errorf("%s: pre %q, %d tokens, %d types, the last %d", name, v.Pre, len(v.Tokens), len(v.Types), v.Types[rows-1])
		}
		again, err := FromVocabulary(*v)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, text := range texts {
			for _, special := range []bool{false, true} {
				ids := again.Encode(text, special)
				if want := reference.Encode(text, special); !slices.Equal(ids, want) {
					t.Fatalf("%s: %q gives %v, want %v", name, text, ids, want)
				}
				if a, b := again.Decode(ids, true), reference.Decode(ids, true); a != b {
					t.Fatalf("%s: %v gives %q, want %q", name, ids, a, b)
				}
			}
		}
	}
}

// A byte-level tokenizer without merges needs no kind of its own.
func TestVocabularyOfBytes(t *testing.T) {
	tok, err := Load("../../../examples/quickstart/model")
	if err != nil {
		t.Fatal(err)
	}
	v, err := tok.Vocabulary(272)
	if err != nil {
		t.Fatal(err)
	}
	if v.Pre != "gpt-2" || v.Merges == nil || v.Tokens[271] != "[PAD271]" || v.Types[259] != typeUserDefined ||
		v.EOS != 258 || v.PAD != 256 || v.BOS != -1 {
		t.Errorf("pre %q, merges %v, last token %q, ids %d %d %d", v.Pre, v.Merges, v.Tokens[271], v.EOS, v.PAD, v.BOS)
	}
	again, err := FromVocabulary(*v)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range referenceTexts(t) {
		if got, want := again.Encode(text, true), tok.Encode(text, true); !slices.Equal(got, want) {
			t.Fatalf("%q gives %v, want %v", text, got, want)
		}
	}
}

func TestTokenizersThatNoGGUFFileCanHold(t *testing.T) {
	for name, want := range map[string]string{
		"gpt2":      `the added token "<mask>" has lstrip, rstrip or single_word`,
		"mistral":   "it adds the tokens [1] before a text",
		"gemma":     "it adds the tokens [1] before a text",
		"falcon":    "none of the known kinds (default, gpt-2, llama-bpe, qwen2, smollm)",
		"o200k":     "none of the known kinds",
		"metaspace": "neither byte-level nor SentencePiece's",
		"llama2":    "it adds the tokens [1] before a text",
	} {
		tok := family(t, name)
		if _, err := tok.Vocabulary(tok.VocabSize()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %q", name, err, want)
		}
	}
	tok := family(t, "mistral")
	tok.names.BOS, tok.names.EOS = "<s>", "</s>"
	if _, err := tok.Vocabulary(tok.VocabSize()); err == nil || !strings.Contains(err.Error(), "normalizer or pre_tokenizer") {
		t.Errorf("Metaspace: error %v", err)
	}
	tok = family(t, "gemma")
	tok.names.BOS = "<s>"
	const neither = "its normalizer or pre_tokenizer is neither byte-level nor SentencePiece's: write the model as a directory"
	if _, err := tok.Vocabulary(tok.VocabSize()); err == nil || !strings.Contains(err.Error(), neither) {
		t.Errorf("Gemma: error %v", err)
	}
	tok = family(t, "llama2") // has one merge for each token; SentencePiece has one for each pair that makes it
	tok.names.BOS = "<s>"
	if _, err := tok.Vocabulary(tok.VocabSize()); err == nil || !strings.Contains(err.Error(), "not those of a SentencePiece model") {
		t.Errorf("too few merges: error %v", err)
	}
	tok = family(t, "smollm")
	if _, err := tok.Vocabulary(tok.VocabSize() - 1); err == nil || !strings.Contains(err.Error(), "3004 tokens; the model has 3003") {
		t.Errorf("too few embeddings: error %v", err)
	}
}
