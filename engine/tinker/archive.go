package tinker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// adapterFiles are the files of a PEFT adapter.
var adapterFiles = []string{"adapter_config.json", "adapter_model.safetensors"}

// download writes the adapter of a checkpoint of the service, and the file that names the checkpoint.
func (e *trainer) download(ctx context.Context, from, dir string) error {
	archive, err := e.link.Archive(ctx, from)
	if err != nil {
		return &trinity.EngineError{Err: err} // another session would not have it either
	}
	if err := e.refer(from, dir); err != nil {
		return err
	}
	if err := unpack(archive, dir); err != nil {
		return fmt.Errorf("tinker: the archive of %s: %w", from, err)
	}
	return nil
}

// maxAdapter bounds the bytes of an archive that was compressed.
const maxAdapter = 8 << 30

// unpack writes the files of an adapter from an archive, tar or tar.gz. It takes no other files.
func unpack(archive []byte, dir string) error {
	plain := io.Reader(bytes.NewReader(archive))
	if bytes.HasPrefix(archive, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(plain)
		if err != nil {
			return err
		}
		plain = io.LimitReader(unzipped, maxAdapter)
	}
	var found []string
	for files := tar.NewReader(plain); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(adapterFiles, name) {
			continue
		}
		if slices.Contains(found, name) {
			return fmt.Errorf("it has %s twice", name)
		}
		found = append(found, name)
		content, err := io.ReadAll(files)
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, name), content)
		}
		if err != nil {
			return err
		}
	}
	if len(found) < len(adapterFiles) {
		return fmt.Errorf("it has %q, and an adapter has %q", found, adapterFiles)
	}
	return nil
}

// referenced returns the checkpoint that a directory stands for.
func referenced(dir string) (string, error) {
	file := filepath.Join(dir, referenceName)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("tinker: %s names no checkpoint of a service (%s is missing): a service samples its own checkpoints alone", dir,
			referenceName)
	}
	if err != nil {
		return "", fmt.Errorf("tinker: %w", err)
	}
	var r reference
	if err := json.Unmarshal(text, &r); err != nil {
		return "", fmt.Errorf("tinker: %s: %w", file, err)
	}
	return r.Path, nil
}
