package modelfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tokenizerFiles are the files of a Hugging Face directory that a tokenizer reads.
var tokenizerFiles = []string{
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
	"tokenizer.model", "chat_template.jinja", "chat_template.json",
}

// CopyTokenizer copies the tokenizer files that from has into the directory to.
func CopyTokenizer(to, from string) error {
	for _, name := range tokenizerFiles {
		source, err := os.Open(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return fmt.Errorf("modelfile: %w", err)
		}
		err = writeStream(filepath.Join(to, name), source)
		source.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, text []byte) error {
	return replace(path, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

func writeStream(path string, r io.Reader) error {
	return replace(path, func(f *os.File) error {
		_, err := io.Copy(f, r)
		return err
	})
}

// replace writes path under a temporary name, syncs and renames, so that it is never seen half written.
func replace(path string, write func(f *os.File) error) error {
	partial := path + ".partial"
	f, err := os.Create(partial)
	if err != nil {
		return fmt.Errorf("modelfile: %w", err)
	}
	err = errors.Join(write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		os.Remove(partial)
		return fmt.Errorf("modelfile: %w", err)
	}
	return nil
}
