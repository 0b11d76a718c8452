// Package gguf reads GGUF model files (versions 2 and 3, little-endian) and converts their tensors
// to float32, including the quantised types of [Type]. It writes version 3, with tensors of the types
// F32, F16, BF16, Q8_0 and Q4_1.
//
// Open maps the file. It compares every count, length and offset with the file's size before it
// allocates memory for them.
package gguf

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/trinity-go/trinity/internal/model/mapped"
)

const (
	magic            = 0x46554747 // "GGUF"
	defaultAlignment = 32
	maxDimensions    = 4
)

// File is an open GGUF file.
type File struct {
	Path    string
	Version int

	metadata map[string]any
	keys     []string // of metadata, in file order
	tensors  map[string]Tensor
	names    []string
	mapping  *mapped.File
}

// Open maps the file at path and checks all of its metadata and its tensor table.
func Open(path string) (*File, error) {
	mapping, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := parse(path, mapping.Bytes)
	if err != nil {
		mapping.Close()
		return nil, fmt.Errorf("gguf: %s: %w", path, err)
	}
	f.mapping = mapping
	return f, nil
}

// Names lists the tensors in file order, with GGUF's names.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor returns the tensor of a GGUF name; ok is false if there is none.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	t, ok = f.tensors[name]
	return t, ok
}

// Value returns a metadata value: uint8 … int64, float32, float64, bool, string, or a slice of one
// of these ([]any for arrays of arrays). ok is false if the file has no such key.
func (f *File) Value(key string) (v any, ok bool) {
	v, ok = f.metadata[key]
	return v, ok
}

// Metadata returns all metadata in file order.
func (f *File) Metadata() []Pair {
	pairs := make([]Pair, len(f.keys))
	for i, key := range f.keys {
		pairs[i] = Pair{key, f.metadata[key]}
	}
	return pairs
}

// Close unmaps the file. Nothing may use its tensors afterwards.
func (f *File) Close() error { return f.mapping.Close() }

func parse(path string, file []byte) (*File, error) {
	r := &reader{rest: file}
	if r.u32() != magic || r.err != nil {
		return nil, fmt.Errorf("not a GGUF file: it does not begin with GGUF")
	}
	f := &File{Path: path, metadata: map[string]any{}, tensors: map[string]Tensor{}}
	version := r.u32()
	if bits.ReverseBytes32(version) <= 3 && version != 0 {
		return nil, fmt.Errorf("the file is big-endian; only little-endian files are supported")
	}
	if version != 2 && version != 3 {
		return nil, fmt.Errorf("version %d; expected 2 or 3", version)
	}
	f.Version = int(version)
	tensors, pairs := r.u64(), r.u64()
	f.readMetadata(r, pairs)
	infos := f.readTensorTable(r, tensors)
	if r.err != nil {
		return nil, r.err
	}
	alignment, err := f.alignment()
	if err != nil {
		return nil, err
	}
	dataStart := (uint64(len(file)-len(r.rest)) + alignment - 1) / alignment * alignment
	if dataStart > uint64(len(file)) {
		if len(infos) > 0 {
			return nil, fmt.Errorf("the file ends before its tensor data")
		}
		dataStart = uint64(len(file))
	}
	return f, f.locate(infos, file[dataStart:], alignment)
}

func (f *File) readMetadata(r *reader, pairs uint64) {
	for range r.bounded(pairs, 8+4+1, "metadata entries") {
		key := r.name("metadata key")
		if r.err != nil {
			return
		}
		value := r.value(r.u32(), 0)
		if r.err != nil {
			r.err = fmt.Errorf("metadata %s: %w", key, r.err)
			return
		}
		if _, repeated := f.metadata[key]; repeated {
			r.fail("metadata %s appears twice", key)
			return
		}
		f.metadata[key] = value
		f.keys = append(f.keys, key)
	}
}

type info struct {
	name   string
	shape  []int
	typ    Type
	offset uint64
}

func (f *File) readTensorTable(r *reader, count uint64) []info {
	var infos []info
	for range r.bounded(count, 8+4+4+8, "tensors") {
		t := info{name: r.name("tensor name")}
		dimensions := r.u32()
		if r.err == nil && dimensions > maxDimensions {
			r.fail("tensor %s has %d dimensions; at most %d are allowed", t.name, dimensions, maxDimensions)
		}
		if r.err != nil {
			return nil
		}
		for range dimensions {
			n := r.u64()
			if n > math.MaxInt32 {
				r.fail("tensor %s has a dimension of %d", t.name, n)
				return nil
			}
			t.shape = append(t.shape, int(n))
		}
		slices.Reverse(t.shape) // GGUF counts from the fastest dimension
		t.typ, t.offset = Type(r.u32()), r.u64()
		infos = append(infos, t)
	}
	return infos
}

func (f *File) alignment() (uint64, error) {
	value, ok := f.metadata["general.alignment"]
	if !ok {
		return defaultAlignment, nil
	}
	n, isU32 := value.(uint32)
	if !isU32 || n == 0 || n&(n-1) != 0 || n > 1<<20 {
		return 0, fmt.Errorf("general.alignment is %v; expected a uint32 power of two", value)
	}
	return uint64(n), nil
}

// locate checks the type, size and offset of each tensor and finds its bytes.
func (f *File) locate(infos []info, data []byte, alignment uint64) error {
	for _, t := range infos {
		l, ok := layouts[t.typ]
		if !ok {
			return fmt.Errorf("tensor %s has type %s; supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K",
				t.name, t.typ)
		}
		elements := uint64(1)
		for _, n := range t.shape {
			high, low := bits.Mul64(elements, uint64(n))
			if high != 0 || low > 1<<50 {
				return fmt.Errorf("tensor %s: shape %v is larger than any file", t.name, t.shape)
			}
			elements = low
		}
		if len(t.shape) > 0 && t.shape[len(t.shape)-1]%l.elements != 0 || elements%uint64(l.elements) != 0 {
			return fmt.Errorf("tensor %s: rows of shape %v are not a multiple of %s blocks of %d", t.name, t.shape, t.typ, l.elements)
		}
		size := elements / uint64(l.elements) * uint64(l.bytes)
		if t.offset%alignment != 0 {
			return fmt.Errorf("tensor %s: offset %d is not a multiple of the alignment %d", t.name, t.offset, alignment)
		}
		if t.offset > uint64(len(data)) || size > uint64(len(data))-t.offset {
			return fmt.Errorf("tensor %s: %d bytes at offset %d of %d bytes of data: the file is truncated", t.name, size, t.offset, len(data))
		}
		if _, repeated := f.tensors[t.name]; repeated {
			return fmt.Errorf("tensor %s appears twice", t.name)
		}
		f.tensors[t.name] = Tensor{Name: t.name, Type: t.typ, Shape: t.shape, Data: data[t.offset : t.offset+size : t.offset+size]}
		f.names = append(f.names, t.name)
	}
	return nil
}
