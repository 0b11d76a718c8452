package run_test

import (
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/model/renderer"
)

// A model may have more embeddings than its tokenizer has tokens, and sample each of them.
func TestVocabularyIsWhatThePolicyMaySample(t *testing.T) {
	const dir = "../../examples/quickstart/model"
	text, err := renderer.Open(dir, renderer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"": 263, dir: 272} {
		if got := (&settle.Stage{ModelPath: path, Text: text}).Vocabulary(); got != want {
			t.Errorf("%q: %d, want %d", path, got, want)
		}
	}
}
