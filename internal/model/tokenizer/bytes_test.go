package tokenizer

import (
	"strings"
	"testing"
)

// The bytes of a text's tokens, one after another, are the bytes of the text, less what decoding does at
// the beginning of a text.
func TestBytesOfTokens(t *testing.T) {
	strips := map[string]bool{"llama2": true, "mistral": true, "metaspace": true}
	for _, name := range []string{
		"added", "falcon", "gemma", "gpt2", "llama2", "llama3", "metaspace", "mistral", "o200k", "qwen2", "smollm",
	} {
		tok := family(t, name)
		if got := tok.StripsFirst(); got != strips[name] {
			t.Errorf("%s: StripsFirst is %v", name, got)
		}
		for _, text := range referenceTexts(t)[:60] {
			ids := tok.EncodeOrdinary(text)
			var joined strings.Builder
			for _, id := range ids {
				part, isSpecial := tok.Bytes(id)
				if isSpecial {
					continue // of text that the vocabulary lacks
				}
				joined.WriteString(part)
			}
			got := joined.String()
			if tok.StripsFirst() {
				got = strings.TrimPrefix(got, " ")
			}
			if want := tok.Decode(ids, true); validUTF8(got) != want {
				t.Fatalf("%s: %q has tokens with %q, decoded %q", name, text, got, want)
			}
		}
	}
	tok := family(t, "llama2")
	if text, isSpecial := tok.Bytes(1); text != "<s>" || !isSpecial {
		t.Errorf("%q %v", text, isSpecial)
	}
	if text, isSpecial := tok.Bytes(1 << 20); text != "" || isSpecial {
		t.Errorf("%q %v", text, isSpecial)
	}
}
