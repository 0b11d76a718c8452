package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
)

const (
	definitionFile   = "tokenizer.json"
	configFile       = "tokenizer_config.json"
	specialsFile     = "special_tokens_map.json"
	chatTemplateFile = "chat_template.jinja"
)

// processorFiles say how a model's images are prepared. A tokenizer carries them, so that a model that is
// written beside it sees images as well.
var processorFiles = []string{"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"}

// maxFile bounds a file of a tokenizer, in bytes. The largest of real models have 33 MB.
const maxFile = 64 << 20

// In reports whether dir holds a tokenizer for [Load].
func In(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, definitionFile))
	return err == nil && info.Mode().IsRegular()
}

// Load reads the tokenizer of a Hugging Face model directory: tokenizer.json and, if present,
// tokenizer_config.json, special_tokens_map.json and chat_template.jinja.
func Load(dir string) (*Tokenizer, error) {
	files := map[string][]byte{}
	for _, name := range append([]string{definitionFile, configFile, specialsFile, chatTemplateFile}, processorFiles...) {
		data, err := durable.ReadRegular(filepath.Join(dir, name), maxFile)
		if errors.Is(err, fs.ErrNotExist) && name != definitionFile {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		files[name] = data
	}
	t, err := parse(files)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", dir, err)
	}
	return t, nil
}

// parse returns the tokenizer of files, which are keyed by name.
func parse(files map[string][]byte) (*Tokenizer, error) {
	d, err := parseDefinition(files[definitionFile])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", definitionFile, err)
	}
	c, err := parseConfig(files)
	if err != nil {
		return nil, err
	}
	if err := c.addTokens(d); err != nil {
		return nil, fmt.Errorf("%s: %w", configFile, err)
	}
	t, err := build(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", definitionFile, err)
	}
	t.files = files
	return t, t.apply(c)
}

// apply sets the special tokens and the chat template of the files beside tokenizer.json.
func (t *Tokenizer) apply(c *config) error {
	for key, token := range c.names.byKey() {
		if _, ok := t.ids[token]; token != "" && !ok {
			return fmt.Errorf("%s: %s is %q, which the vocabulary does not have", configFile, key, token)
		}
	}
	t.names, t.template = c.names, c.template
	return nil
}

// decodeLoose reads a file and ignores its other keys, which are settings of transformers that do
// not affect ids.
func decodeLoose(files map[string][]byte, name string, v any) error {
	data, ok := files[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
