package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"

	"github.com/trinity-go/trinity/internal/durable"
)

// Pair is a metadata entry; see [File.Value] for the types of its value.
type Pair struct {
	Key   string
	Value any
}

// Entry is a tensor for [Write].
type Entry struct {
	Name  string
	Type  Type
	Shape []int // row-major, as in [Tensor]
	// Write writes exactly the tensor's blocks to w, for example by Encode.
	Write func(w io.Writer) error
}

// Write writes a file of version 3 with the default alignment, metadata and tensors in the given
// order. It writes a temporary file, syncs and renames it, so path never holds half a file.
func Write(path string, metadata []Pair, tensors []Entry) error {
	head, offsets, err := encodeHead(metadata, tensors)
	if err != nil {
		return fmt.Errorf("gguf: %s: %w", path, err)
	}
	err = durable.Replace(path, func(w io.Writer) error {
		out := &counter{w: w}
		if _, err := out.Write(head); err != nil {
			return err
		}
		for i, t := range tensors {
			if err := out.pad(); err != nil {
				return err
			}
			start := out.n
			if err := t.Write(out); err != nil {
				return fmt.Errorf("tensor %s: %w", t.Name, err)
			}
			if want := offsets[i+1] - offsets[i]; aligned(out.n-start) != want {
				return fmt.Errorf("tensor %s: wrote %d bytes; %s %v needs another number", t.Name, out.n-start, t.Type, t.Shape)
			}
		}
		return out.pad()
	})
	if err != nil {
		return fmt.Errorf("gguf: %s: %w", path, err)
	}
	return nil
}

// encodeHead returns all that precedes the tensors' data, and the offset of each tensor in the data.
// One more offset is the end of the data.
func encodeHead(metadata []Pair, tensors []Entry) (head []byte, offsets []uint64, err error) {
	head = binary.LittleEndian.AppendUint32(head, magic)
	head = binary.LittleEndian.AppendUint32(head, 3)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(tensors)))
	head = binary.LittleEndian.AppendUint64(head, uint64(len(metadata)))
	for _, p := range metadata {
		v := reflect.ValueOf(p.Value)
		kind, ok := kindOf(v)
		if !ok {
			return nil, nil, fmt.Errorf("metadata %s: the format has no %T", p.Key, p.Value)
		}
		head = appendValue(binary.LittleEndian.AppendUint32(appendString(head, p.Key), kind), v)
	}
	offsets = []uint64{0}
	for i, t := range tensors {
		size := uint64(1)
		head = binary.LittleEndian.AppendUint32(appendString(head, t.Name), uint32(len(t.Shape)))
		for k := range t.Shape { // GGUF counts from the fastest dimension
			n := uint64(t.Shape[len(t.Shape)-1-k])
			head = binary.LittleEndian.AppendUint64(head, n)
			size *= n
		}
		head = binary.LittleEndian.AppendUint32(head, uint32(t.Type))
		head = binary.LittleEndian.AppendUint64(head, offsets[i])
		l, ok := layouts[t.Type]
		if !ok || t.Shape[len(t.Shape)-1]%l.elements != 0 {
			return nil, nil, fmt.Errorf("tensor %s: rows of shape %v are not whole %s blocks", t.Name, t.Shape, t.Type)
		}
		offsets = append(offsets, offsets[i]+aligned(size/uint64(l.elements)*uint64(l.bytes)))
	}
	return head, offsets, nil
}

func aligned(n uint64) uint64 {
	return (n + defaultAlignment - 1) / defaultAlignment * defaultAlignment
}

// counter counts the bytes of a file.
type counter struct {
	w io.Writer
	n uint64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += uint64(n)
	return n, err
}

// pad writes zeros up to the next multiple of the alignment.
func (c *counter) pad() error {
	_, err := c.Write(make([]byte, aligned(c.n)-c.n))
	return err
}

var kinds = map[reflect.Kind]uint32{
	reflect.Uint8: typeU8, reflect.Int8: typeI8, reflect.Uint16: typeU16, reflect.Int16: typeI16, reflect.Uint32: typeU32,
	reflect.Int32: typeI32, reflect.Float32: typeF32, reflect.Bool: typeBool, reflect.String: typeString, reflect.Slice: typeArray,
	reflect.Uint64: typeU64, reflect.Int64: typeI64, reflect.Float64: typeF64,
}

// kindOf returns the number of a value's type in the format. An element of []any is an array.
func kindOf(v reflect.Value) (kind uint32, ok bool) {
	if kind, ok = kinds[v.Kind()]; ok && v.Kind() == reflect.Slice {
		_, ok = kinds[v.Type().Elem().Kind()]
		ok = ok || v.Type().Elem().Kind() == reflect.Interface
	}
	return kind, ok
}

// appendValue appends a value without its type.
func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return appendString(b, v.String())
	case reflect.Slice:
		kind, ok := kinds[v.Type().Elem().Kind()]
		if !ok {
			kind = typeArray
		}
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, kind), uint64(v.Len()))
		for i := range v.Len() {
			item := v.Index(i)
			if item.Kind() == reflect.Interface {
				item = item.Elem()
			}
			b = appendValue(b, item)
		}
		return b
	}
	b, _ = binary.Append(b, binary.LittleEndian, v.Interface()) // no other kind is in kinds
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}
