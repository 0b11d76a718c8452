package run

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/trinity-go/trinity/dataset"
	"github.com/trinity-go/trinity/hub"
	"github.com/trinity-go/trinity/modelfile"
	"github.com/trinity-go/trinity/renderer"
	"github.com/trinity-go/trinity/tokenizer"
)

// Text is how a model's text becomes tokens.
type Text struct {
	Tokenizer *tokenizer.Tokenizer // nil when the model has none: it serves token input only
	Renderer  *renderer.Renderer   // nil when there is no tokenizer
}

// TextOptions replace what the model itself says.
type TextOptions struct {
	ChatTemplate string
	Kwargs       map[string]any // variables of the chat template, such as enable_thinking
}

// OpenText reads the tokenizer and chat template of a model directory or GGUF file.
func OpenText(path string, opts TextOptions) (*Text, error) {
	tok, err := openTokenizer(path)
	if err != nil || tok == nil {
		return &Text{}, err
	}
	stop, err := stopTokens(path)
	if err != nil {
		return nil, err
	}
	r, err := renderer.New(tok, renderer.Options{Template: opts.ChatTemplate, Kwargs: opts.Kwargs, StopTokens: stop})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Text{Tokenizer: tok, Renderer: r}, nil
}

func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	if !strings.HasSuffix(path, ".gguf") {
		if !tokenizer.In(path) {
			return nil, nil
		}
		return tokenizer.Load(path)
	}
	m, err := modelfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	v := m.Vocabulary()
	if v == nil {
		return nil, nil
	}
	return tokenizer.FromVocabulary(tokenizer.Vocabulary(*v))
}

// stopTokens are the end-of-sequence ids that the model's own configuration names.
func stopTokens(path string) ([]int32, error) {
	c, err := modelfile.ReadConfig(path)
	if err != nil {
		return nil, err
	}
	return c.EOS, nil
}

// ResolveModel returns the local path of a model: itself when it exists, else the hub's copy, which is fetched if need be.
func ResolveModel(ctx context.Context, name string, say func(string)) (string, error) {
	if name == "" {
		return "", fmt.Errorf("model.model_path is not set: name a directory, a GGUF file or a hub model org/name")
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if !hub.IsName(name) {
		return "", fmt.Errorf("model %s: no such file or directory", name)
	}
	dir, err := hub.Pull(ctx, name, hub.Options{Progress: Progress(say)})
	if err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	return dir, nil
}

// Progress says how far a download is: a line for each tenth.
func Progress(say func(string)) func(hub.Progress) {
	said := int64(-1)
	return func(p hub.Progress) {
		if p.AllTotal == 0 {
			return
		}
		if tenth := 10 * p.AllDone / p.AllTotal; tenth > said {
			said = tenth
			say(fmt.Sprintf("fetching %s: %d of %d MB", p.File, p.AllDone>>20, p.AllTotal>>20))
		}
	}
}

// isHubDataset reports whether a dataset that is not on this machine can be one of the hub: a name like that of a file is no hub's.
func isHubDataset(name string) bool {
	return hub.IsName(datasetName(name)) && (strings.Contains(name, "://") || !dataset.IsFile(name))
}

// datasetName is the hub's name of a dataset, which a configuration writes as org/name.
func datasetName(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return "hf://datasets/" + name
}
