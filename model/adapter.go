package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

const (
	adapterConfigName  = "adapter_config.json"
	adapterWeightsName = "adapter_model.safetensors"
	adapterPrefix      = "base_model.model." // of every tensor name in a PEFT file
	headBaseName       = OutputHead + ".base_layer.weight"
)

// Adapter is an open PEFT directory. It is a Source whose tensors have the names of [LoRA.Tensors].
type Adapter struct {
	LoRA

	path    string
	names   []string
	tensors map[string]Tensor
	file    *safetensors.File
}

// OpenAdapter opens a PEFT directory (adapter_config.json, adapter_model.safetensors) and checks it
// against the config of the model that it adapts.
func OpenAdapter(dir string, cfg *Config) (*Adapter, error) {
	lora, err := readAdapterConfig(filepath.Join(dir, adapterConfigName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model: %s is not a PEFT directory: it has no %s", dir, adapterConfigName)
	} else if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	specs, err := lora.specs(cfg, stack.joined)
	if err != nil {
		return nil, fmt.Errorf("model: %s: %w", filepath.Join(dir, adapterConfigName), err)
	}
	a := &Adapter{LoRA: *lora, path: filepath.Join(dir, adapterWeightsName), tensors: map[string]Tensor{}}
	if a.file, err = safetensors.Open(a.path); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	for _, name := range a.file.Names() {
		stored, _ := a.file.Tensor(name)
		t := fromSafetensors(stored)
		t.Name = strings.TrimPrefix(name, adapterPrefix)
		a.tensors[t.Name] = t
	}
	// PEFT saves the frozen weight beside an adapter of the head. It is the base's own.
	if _, saved := a.tensors[headBaseName]; saved && lora.adaptsHead(cfg) {
		specs = append(specs, TensorSpec{headBaseName, []int{cfg.VocabSize, cfg.HiddenSize}})
	}
	if err := compareTensors(specs, a.tensors, "LoRA adapter of this config"); err != nil {
		a.file.Close()
		return nil, fmt.Errorf("model: %s: %w", a.path, err)
	}
	delete(a.tensors, headBaseName)
	lora.splitStacks(cfg, a.tensors)
	if specs, err = lora.Tensors(cfg); err != nil {
		a.file.Close()
		return nil, fmt.Errorf("model: %s: %w", a.path, err)
	}
	for _, spec := range specs {
		a.names = append(a.names, spec.Name)
	}
	return a, nil
}

// Names lists the tensors in the order of LoRA.Tensors.
func (a *Adapter) Names() []string { return slices.Clone(a.names) }

// Tensor returns the tensor of a name without PEFT's prefix. The error names the tensor and the
// file.
func (a *Adapter) Tensor(name string) (Tensor, error) {
	t, ok := a.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("model: %s: no tensor %s", a.path, name)
	}
	return t, nil
}

// Float32 reads a whole tensor.
func (a *Adapter) Float32(name string) ([]float32, error) {
	t, err := a.Tensor(name)
	if err != nil {
		return nil, err
	}
	v := make([]float32, t.Len())
	return v, t.Float32(v)
}

// Close releases the file; tensors must not be read afterwards.
func (a *Adapter) Close() error { return a.file.Close() }

// WriteAdapter writes a PEFT directory in float32. source has the tensors of lora.Tensors(cfg).
func WriteAdapter(dir string, cfg *Config, lora *LoRA, source Source) error {
	specs, err := lora.Tensors(cfg)
	if err != nil {
		return fmt.Errorf("model: adapter: %w", err)
	}
	tensors, err := collectAll(source)
	if err != nil {
		return err
	}
	if err := compareTensors(specs, tensors, "LoRA adapter of this config"); err != nil {
		return fmt.Errorf("model: cannot write the adapter: %w", err)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	lora.joinStacks(cfg, tensors)
	entries := entriesOf(tensors, safetensors.F32, adapterPrefix)
	if err := safetensors.Write(filepath.Join(dir, adapterWeightsName), entries, nil); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	described := *lora
	alone := len(lora.TargetModules) == 1                   // PEFT knows all-linear by itself only
	if !alone || cfg.Mixture != nil || cfg.Foreign != nil { // and includes experts, routers and maps outside layers
		described.TargetModules = lora.targetNames(cfg)
	}
	return writeJSON(filepath.Join(dir, adapterConfigName), described.json(cfg.Head))
}

// AdapterBase returns the base model that a PEFT directory names. ok is false if the path is no such
// directory.
func AdapterBase(dir string) (base string, ok bool, err error) {
	path := filepath.Join(dir, adapterConfigName)
	text, err := readSmall(path)
	if err != nil {
		return "", false, nil // not an adapter
	}
	var c struct {
		Base string `json:"base_model_name_or_path"`
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return "", false, fmt.Errorf("%s: %w", path, err)
	}
	if c.Base == "" {
		return "", false, fmt.Errorf("%s has no base_model_name_or_path: write the base model's path there", path)
	}
	return c.Base, true, nil
}
