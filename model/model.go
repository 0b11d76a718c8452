// Package model reads and writes the files of decoder-only language models: Hugging Face
// directories (config.json, safetensors), GGUF files, and PEFT adapters. Whatever the file, tensors
// have Hugging Face's names, shapes and RoPE layout (rotation pairs element i of a head with
// element i + HeadDim/2).
//
// The files are untrusted input: Open compares the tensors of a model with its config, and an
// option that would change the model's outputs and is not supported is an error.
package model

import (
	"fmt"
	"io"

	"github.com/trinity-go/trinity/internal/model/gguf"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
)

// Source is a set of named tensors: an open model, a random initialisation, or an engine's own
// weights.
type Source interface {
	// Names lists the tensors, in the order of Config.Tensors.
	Names() []string
	// Tensor returns the tensor of a Hugging Face name; the error names the tensor and the file.
	Tensor(name string) (Tensor, error)
}

// Tensor is a named array of numbers. It reads as float32, whatever its storage type.
type Tensor struct {
	Name  string
	Shape []int  // row-major: [out, in] for weights, [n] for norms and biases
	DType string // as stored: "F32", "F16", "BF16", "Q4_1" …

	read func(dst []float32, from, to int) error
}

// NewTensor returns a tensor whose rows come from read, which fills dst with rows from … to−1 of
// the first dimension. Several goroutines may call read at once.
func NewTensor(name string, shape []int, read func(dst []float32, from, to int) error) Tensor {
	return Tensor{Name: name, Shape: shape, DType: "F32", read: read}
}

// Len returns the number of elements.
func (t Tensor) Len() int { return product(t.Shape) }

// RowLen returns the number of elements in a row, a step of the first dimension: 1 for norms and
// biases.
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

// Rows fills dst with rows from … to−1 of the first dimension, (to−from)·RowLen numbers. Several
// goroutines may call it at once.
func (t Tensor) Rows(dst []float32, from, to int) error {
	rows := 1
	if len(t.Shape) > 0 {
		rows = t.Shape[0]
	}
	if from < 0 || from > to || to > rows || len(dst) != (to-from)*t.RowLen() {
		return fmt.Errorf("model: tensor %s %v: rows %d to %d do not fit into %d numbers", t.Name, t.Shape, from, to, len(dst))
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
	vocabulary *tokenizer.Vocabulary
	gguf       *gguf.File // nil if the model is not from a GGUF file
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

// Tensor returns the tensor of a Hugging Face name. It reads from the model's file, which must stay
// open.
func (m *Model) Tensor(name string) (Tensor, error) {
	t, ok := m.tensors[name]
	if !ok {
		return Tensor{}, fmt.Errorf("model: %s: no tensor %s", m.path, name)
	}
	return t, nil
}

// Path returns the directory or .gguf file that Open opened; "" for a random initialisation.
func (m *Model) Path() string { return m.path }

// Dir returns the Hugging Face directory, which may hold tokenizer files; "" if the model is not
// from one.
func (m *Model) Dir() string { return m.dir }

// Vocabulary returns the vocabulary of a GGUF file; nil if there is none, and for a directory.
func (m *Model) Vocabulary() *tokenizer.Vocabulary { return m.vocabulary }

// Close closes the files. Nothing may read the tensors afterwards.
func (m *Model) Close() error {
	if m.closer == nil {
		return nil
	}
	return m.closer.Close()
}
