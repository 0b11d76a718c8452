// Package modelfile reads and writes the files of decoder-only language models: Hugging Face directories
// (config.json, safetensors), GGUF files, and PEFT adapters. Whatever the file, tensors have Hugging Face's
// names, shapes and RoPE layout (rotation pairs element i of a head with element i + HeadDim/2).
//
// Nothing read is trusted: the tensors of a model are checked against what its config demands, and an
// option that would change the model's outputs and is not implemented is an error.
package modelfile

import (
	"fmt"
	"io"
)

// Source is a set of named tensors: an open model, a random initialisation, or an engine's own weights.
type Source interface {
	// Names lists the tensors, in the order of Config.Tensors.
	Names() []string
	// Tensor finds one by its Hugging Face name; the error names it and the file.
	Tensor(name string) (Tensor, error)
}

// Tensor is a named array of numbers that can be read as float32, whatever its storage.
type Tensor struct {
	Name  string
	Shape []int  // row-major: [out, in] for weights, [n] for norms and biases
	DType string // as stored: "F32", "F16", "BF16", "Q4_1" …

	read func(dst []float32, from, to int) error
}

// NewTensor is a tensor whose rows come from read, which fills dst with rows from … to−1 of the first
// dimension. It must be safe to call from several goroutines.
func NewTensor(name string, shape []int, read func(dst []float32, from, to int) error) Tensor {
	return Tensor{Name: name, Shape: shape, DType: "F32", read: read}
}

// Len is the number of elements.
func (t Tensor) Len() int { return product(t.Shape) }

// RowLen is the number of elements per step of the first dimension: 1 for norms and biases.
func (t Tensor) RowLen() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return product(t.Shape[1:])
}

// Float32 fills dst, which must have Len elements, with the whole tensor.
func (t Tensor) Float32(dst []float32) error {
	rows := 1
	if len(t.Shape) > 0 {
		rows = t.Shape[0]
	}
	return t.Rows(dst, 0, rows)
}

// Rows fills dst with rows from … to−1 of the first dimension, (to−from)·RowLen numbers. It may be called
// from several goroutines at once.
func (t Tensor) Rows(dst []float32, from, to int) error {
	rows := 1
	if len(t.Shape) > 0 {
		rows = t.Shape[0]
	}
	if from < 0 || from > to || to > rows || len(dst) != (to-from)*t.RowLen() {
		return fmt.Errorf("modelfile: tensor %s %v: rows %d to %d asked into %d numbers", t.Name, t.Shape, from, to, len(dst))
	}
	return t.read(dst, from, to)
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Model is an open model: its config, its checked tensors and, from GGUF, its vocabulary.
type Model struct {
	Config *Config

	path       string
	dir        string
	tensors    map[string]Tensor
	vocabulary *Vocabulary
	closer     io.Closer
}

// Names lists the tensors in the order of Config.Tensors.
func (m *Model) Names() []string {
	specs := m.Config.Tensors()
	names := make([]string, len(specs))
	for i, s := range specs {
		names[i] = s.Name
	}
	return names
}

// Tensor finds a tensor by its Hugging Face name. It reads from the model's file, which must stay open.
func (m *Model) Tensor(name string) (Tensor, error) {
	t, ok := m.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("modelfile: %s: no tensor %s", m.path, name)
	}
	return t, nil
}

// Path is what was opened: a directory or a .gguf file; empty for a random initialisation.
func (m *Model) Path() string { return m.path }

// Dir is the Hugging Face directory, where tokenizer files may lie; empty if the model is not from one.
func (m *Model) Dir() string { return m.dir }

// Vocabulary is the vocabulary inside a GGUF file; nil if there is none, as in a directory.
func (m *Model) Vocabulary() *Vocabulary { return m.vocabulary }

// Close releases the files; tensors must not be read afterwards.
func (m *Model) Close() error {
	if m.closer == nil {
		return nil
	}
	return m.closer.Close()
}
