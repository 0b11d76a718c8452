package renderer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model"
)

// Open returns the renderer of a model: its tokenizer, its chat template unless the options name
// another, and the end-of-sequence tokens of its config as stop tokens. path is a Hugging Face
// directory or a .gguf file. Open returns nil if the model has no tokenizer and serves token input
// only.
func Open(path string, o Options) (*Renderer, error) {
	tok, err := openTokenizer(path)
	if err != nil || tok == nil {
		return nil, err
	}
	cfg, err := model.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	o.StopTokens = append(slices.Clone(o.StopTokens), cfg.EOS...)
	r, err := New(tok, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// openTokenizer returns nil if the model has no tokenizer.
func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	if !strings.HasSuffix(path, ".gguf") {
		if !tokenizer.In(path) {
			return nil, nil
		}
		return tokenizer.Load(path)
	}
	m, err := model.Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if m.Vocabulary() == nil {
		return nil, nil
	}
	return tokenizer.FromVocabulary(*m.Vocabulary())
}
