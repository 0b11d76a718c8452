package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/durable"
)

// tokenizerFiles are the files of a Hugging Face directory that a tokenizer reads.
var tokenizerFiles = []string{
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
	"tokenizer.model", "chat_template.jinja", "chat_template.json",
}

// CopyTokenizer copies the tokenizer files in directory from to directory to. Missing files are no
// error.
func CopyTokenizer(to, from string) error {
	for _, name := range tokenizerFiles {
		source, err := os.Open(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("model: %w", err)
		}
		err = writeStream(filepath.Join(to, name), source)
		source.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, text []byte) error { return writeStream(path, bytes.NewReader(text)) }

func writeStream(path string, r io.Reader) error {
	err := durable.Replace(path, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("model: %w", err)
	}
	return nil
}
