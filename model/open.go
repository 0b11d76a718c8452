package model

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/model/safetensors"
)

// Open opens a Hugging Face directory or a .gguf file. It returns an error unless the file holds
// exactly the tensors of its config, with the right shapes and with dtypes that this package reads.
// Weights stay on disk until they are read.
func Open(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if info.IsDir() {
		return openDir(path)
	}
	if strings.EqualFold(filepath.Ext(path), ".gguf") {
		return openGGUF(path)
	}
	return nil, fmt.Errorf("model: %s is neither a model directory nor a .gguf file", path)
}

// HasWeights reports whether path may hold weights: it is a file, or a directory with safetensors.
func HasWeights(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return true // Open returns the error
	}
	for _, name := range []string{safetensors.SingleName, safetensors.IndexName} {
		if _, err := os.Stat(filepath.Join(path, name)); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

func openDir(dir string) (*Model, error) {
	cfg, err := readDirConfig(dir)
	if err != nil {
		return nil, err
	}
	weights, err := safetensors.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	tensors := map[string]Tensor{}
	for _, name := range weights.Names() {
		if stored, _ := weights.Tensor(name); !ignorable(cfg, name) {
			tensors[name] = fromSafetensors(stored)
		}
	}
	if err := splitExperts(cfg, weights, tensors); err != nil {
		weights.Close()
		return nil, fmt.Errorf("model: %s: %w", dir, err)
	}
	return newModel(cfg, dir, dir, tensors, weights)
}

// ignorable reports whether a tensor is one that some checkpoints contain although the model does
// not use it.
func ignorable(cfg *Config, name string) bool {
	return strings.HasSuffix(name, "rotary_emb.inv_freq") || (cfg.TieEmbeddings || cfg.Head != CausalLM) && name == headName
}

func fromSafetensors(stored safetensors.Tensor) Tensor {
	t := Tensor{Name: stored.Name, Shape: stored.Shape, DType: string(stored.DType)}
	rowLen := t.RowLen()
	t.read = func(dst []float32, from, _ int) error { return stored.Range(dst, from*rowLen) }
	return t
}

// newModel compares the tensors with the config. It closes the file on an error.
func newModel(cfg *Config, path, dir string, tensors map[string]Tensor, closer io.Closer) (*Model, error) {
	if err := checkTensors(cfg, tensors); err != nil {
		closer.Close()
		return nil, fmt.Errorf("model: %s: %w", path, err)
	}
	return &Model{Config: cfg, path: path, dir: dir, tensors: tensors, closer: closer}, nil
}

var floatDTypes = []string{"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}

func checkTensors(cfg *Config, tensors map[string]Tensor) error {
	return compareTensors(cfg.Tensors(), tensors, cfg.Architecture+" model of this config")
}

// compareTensors returns an error unless tensors are exactly those of specs; kind describes the
// expected kind of file in the error.
func compareTensors(specs []TensorSpec, tensors map[string]Tensor, kind string) error {
	expected := map[string]bool{}
	var missing []string
	for _, want := range specs {
		expected[want.Name] = true
		got, ok := tensors[want.Name]
		switch {
		case !ok:
			missing = append(missing, want.Name)
		case !slices.Equal(got.Shape, want.Shape):
			return fmt.Errorf("tensor %s has shape %v; the config demands %v", want.Name, got.Shape, want.Shape)
		case !slices.Contains(floatDTypes, got.DType):
			return fmt.Errorf("tensor %s has dtype %s; expected one of %s", want.Name, got.DType, strings.Join(floatDTypes, ", "))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("lacks %d tensors that the config demands: %s", len(missing), few(missing))
	}
	var unexpected []string
	for name := range tensors {
		if !expected[name] {
			unexpected = append(unexpected, name)
		}
	}
	if len(unexpected) > 0 {
		return fmt.Errorf("holds %d tensors that a %s does not have: %s", len(unexpected), kind, few(unexpected))
	}
	return nil
}

// few joins the first names of a list that may be long.
func few(names []string) string {
	slices.Sort(names)
	const shown = 4
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:shown], ", ") + ", …"
}
