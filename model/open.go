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

	"github.com/trinity-go/trinity/internal/model/safetensors"
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
	stored, err := unwrapped(weights, cfg.PartOf != "")
	tensors := map[string]Tensor{}
	if err == nil {
		if head, ok := stored[headName]; ok && cfg.TieEmbeddings && !has(stored, embeddingName) {
			head.Name = embeddingName // a file keeps one of two names of the same memory, and some keep this one
			stored[embeddingName] = head
		}
		for name, t := range stored {
			if !ignorable(cfg, name) {
				tensors[name] = fromSafetensors(t)
			}
		}
		err = splitExperts(cfg, stored, tensors)
	}
	if err != nil {
		weights.Close()
		return nil, fmt.Errorf("model: %s: %w", dir, err)
	}
	return newModel(cfg, dir, dir, tensors, weights)
}

func has(stored map[string]safetensors.Tensor, name string) bool {
	_, ok := stored[name]
	return ok
}

// wrappers are the parts of names by which training programs that wrap a model or its layers name
// their tensors: DistributedDataParallel, torch.compile, FSDP and its activation checkpoints.
var wrappers = []string{"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

// unwrapped returns the tensors of a directory by the names of a model that nothing wraps. part says that the model is the text
// part of what is in the directory.
func unwrapped(weights *safetensors.Dir, part bool) (map[string]safetensors.Tensor, error) {
	all := map[string]safetensors.Tensor{}
	from := map[string]string{}
	for _, name := range weights.Names() {
		parts := strings.Split(name, ".")
		own := strings.Join(slices.DeleteFunc(parts, func(part string) bool { return slices.Contains(wrappers, part) }), ".")
		own = strings.TrimPrefix(own, adapterPrefix) // a whole model in the form of PEFT
		if first, twice := from[own]; twice {
			return nil, fmt.Errorf("tensors %s and %s are both %s", first, name, own)
		}
		stored, _ := weights.Tensor(name)
		stored.Name = own
		all[own], from[own] = stored, name
	}
	all = textTensors(all, part)
	if !has(all, embeddingName) && has(all, strings.TrimPrefix(embeddingName, bodyPrefix)) { // the model without a head
		body := map[string]safetensors.Tensor{}
		for name, t := range all {
			if name != headName && name != scoreName && name != scoreBiasName {
				t.Name = bodyPrefix + name
			}
			body[t.Name] = t
		}
		all = body
	}
	return all, nil
}

// bodyPrefix begins the names of the tensors of a model below its head.
const bodyPrefix = "model."

// ignorable reports whether a tensor is one that some checkpoints contain although the model does
// not use it.
func ignorable(cfg *Config, name string) bool {
	return isBuffer(name) || (cfg.TieEmbeddings || cfg.Head != CausalLM) && name == headName
}

// isBuffer reports whether a tensor of a checkpoint is computed from its config.
func isBuffer(name string) bool { return strings.HasSuffix(name, "rotary_emb.inv_freq") }

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
	for name := range tensors {
		if len(missing) > 0 && strings.Contains(name, ".base_layer.") {
			return fmt.Errorf("tensor %s is below an adapter of PEFT: merge the adapter (merge_and_unload) before you save the model", name)
		}
	}
	if prefix := foreignPrefix(missing, tensors); prefix != "" {
		return fmt.Errorf("its tensors begin with %q: save the model without what wraps it", prefix)
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

// foreignPrefix returns what stands before the names of missing tensors in the file; "" if it has none
// of them.
func foreignPrefix(missing []string, tensors map[string]Tensor) string {
	for name := range tensors {
		for _, want := range missing {
			if prefix, ok := strings.CutSuffix(name, "."+want); ok {
				return prefix + "."
			}
		}
	}
	return ""
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
