package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
)

// WriteFiles writes the tokenizer to dir in Hugging Face's layout and creates dir if necessary. It
// writes the loaded files byte for byte, or tokenizer.json and tokenizer_config.json made from the
// Vocabulary.
func (t *Tokenizer) WriteFiles(dir string) error {
	files := t.files
	if files == nil {
		var err error
		if files, err = t.makeFiles(); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("tokenizer: %w", err)
	}
	for name, data := range files {
		if err := durable.WriteFile(filepath.Join(dir, name), data); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
	}
	return nil
}

func (t *Tokenizer) makeFiles() (map[string][]byte, error) {
	config := map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false}
	for key, token := range t.names.byKey() {
		if token != "" {
			config[key] = token
		}
	}
	if t.template != "" {
		config["chat_template"] = t.template
	}
	files := map[string][]byte{}
	for name, content := range map[string]any{definitionFile: t.definition, configFile: config} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(content); err != nil {
			return nil, err
		}
		files[name] = b.Bytes()
	}
	return files, nil
}
