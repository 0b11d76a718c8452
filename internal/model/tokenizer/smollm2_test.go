package tokenizer_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model"
)

func smolLM2(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name SmolLM2's GGUF file")
	}
	m, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tok, err := tokenizer.FromVocabulary(*m.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestSmolLM2TokenizerEqualsTheReference(t *testing.T) {
	tok := smolLM2(t)
	tokenizer.CheckReferences(t, tok, tokenizer.ReferenceTexts(t), tokenizer.Gunzip(t, "smollm2.ref.gz"))
	if got := []int32{tok.BOS(), tok.EOS(), tok.UNK(), tok.PAD(), int32(tok.VocabSize())}; !slices.Equal(got, []int32{1, 2, 0, 2, 49152}) {
		t.Errorf("BOS, EOS, UNK, PAD, size = %v", got)
	}
	if !strings.HasPrefix(tok.ChatTemplate(), "{% for message in messages %}") {
		t.Errorf("chat template %q", tok.ChatTemplate())
	}
	dir := t.TempDir()
	if err := tok.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	again, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	tokenizer.CheckReferences(t, again, tokenizer.ReferenceTexts(t), tokenizer.Gunzip(t, "smollm2.ref.gz"))
	if again.EOS() != tok.EOS() || again.ChatTemplate() != tok.ChatTemplate() {
		t.Error("the files lost the EOS or the chat template")
	}
}

// BenchmarkLoadSmolLM2 loads a vocabulary of 49,152 tokens, from a directory and from a GGUF file.
func BenchmarkLoadSmolLM2(b *testing.B) {
	tok, dir := smolLM2(b), b.TempDir()
	if err := tok.WriteFiles(dir); err != nil {
		b.Fatal(err)
	}
	b.Run("directory", func(b *testing.B) {
		for b.Loop() {
			if _, err := tokenizer.Load(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
	m, err := model.Open(os.Getenv("TRINITY_SMOLLM2_GGUF"))
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.Run("gguf", func(b *testing.B) {
		for b.Loop() {
			if _, err := tokenizer.FromVocabulary(*m.Vocabulary()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
