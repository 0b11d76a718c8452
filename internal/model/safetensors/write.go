package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/model/half"
)

// Entry is a tensor for [Write].
type Entry struct {
	Name  string
	DType DType
	Shape []int
	// Write writes exactly the tensor's bytes, little-endian and row-major, to w.
	Write func(w io.Writer) error
}

// Float32s returns an F32 entry over data, which must stay unchanged until [Write] returns.
func Float32s(name string, shape []int, data []float32) Entry {
	return Entry{Name: name, DType: F32, Shape: shape, Write: func(w io.Writer) error { return Encode(w, F32, data) }}
}

// Encode writes numbers as F32 or, rounded to nearest even, as BF16.
func Encode(w io.Writer, dtype DType, data []float32) error {
	const chunk = 1 << 14
	buffer := make([]byte, 0, 4*min(len(data), chunk))
	for len(data) > 0 {
		n := min(len(data), chunk)
		buffer = buffer[:0]
		for _, v := range data[:n] {
			switch dtype {
			case F32:
				buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(v))
			case BF16:
				buffer = binary.LittleEndian.AppendUint16(buffer, half.ToBF16(v))
			default:
				return fmt.Errorf("safetensors: cannot write dtype %s; expected F32 or BF16", dtype)
			}
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// Int32s is Float32s for an I32 entry.
func Int32s(name string, data []int32) Entry {
	return Entry{Name: name, DType: I32, Shape: []int{len(data)}, Write: func(w io.Writer) error {
		return binary.Write(w, binary.LittleEndian, data)
	}}
}

// Bytes is Float32s for a U8 entry.
func Bytes(name string, data []byte) Entry {
	return Entry{Name: name, DType: U8, Shape: []int{len(data)}, Write: func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}}
}

// Write writes a file. It writes a temporary file, syncs and renames it, so path never holds half a
// file. A nil metadata becomes {"format":"pt"}, which transformers demands.
func Write(path string, tensors []Entry, metadata map[string]string) error {
	err := durable.Replace(path, func(w io.Writer) error { return WriteTo(w, tensors, metadata) })
	if err != nil {
		return fmt.Errorf("safetensors: %s: %w", path, err)
	}
	return nil
}

// WriteTo is Write into any writer. Like the reference implementation it sorts the tensors by type,
// widest first, then by name.
func WriteTo(w io.Writer, tensors []Entry, metadata map[string]string) error {
	if metadata == nil {
		metadata = map[string]string{"format": "pt"}
	}
	sorted := slices.Clone(tensors)
	slices.SortStableFunc(sorted, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.DType.rank(), a.DType.rank()), cmp.Compare(a.Name, b.Name))
	})
	header, err := encodeHeader(sorted, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range sorted {
		if err := writeTensor(w, t); err != nil {
			return fmt.Errorf("tensor %s: %w", t.Name, err)
		}
	}
	return nil
}

// encodeHeader builds the length and the JSON by hand, because the order of keys matters to readers
// that compare files.
func encodeHeader(tensors []Entry, metadata map[string]string) ([]byte, error) {
	header := append(make([]byte, 8), `{"__metadata__":`...)
	header = append(header, marshal(metadata)...)
	var offset uint64
	for i, t := range tensors {
		if i > 0 && t.Name == tensors[i-1].Name || t.Name == "__metadata__" {
			return nil, fmt.Errorf("tensor name %q is given twice or reserved", t.Name)
		}
		size, err := byteSize(t.DType, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", t.Name, err)
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		header = fmt.Appendf(header, `,%s:{"dtype":"%s","shape":%s,"data_offsets":[%d,%d]}`,
			marshal(t.Name), t.DType, marshal(shape), offset, offset+size)
		offset += size
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if len(header)-8 > maxHeader {
		return nil, fmt.Errorf("header of %d bytes; at most %d are allowed", len(header)-8, maxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, nil
}

// marshal encodes strings, integers and string maps, which cannot fail.
func marshal(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v)
	return bytes.TrimSpace(b.Bytes())
}

func writeTensor(w io.Writer, t Entry) error {
	size, _ := byteSize(t.DType, t.Shape)
	counter := &countingWriter{w: w}
	if err := t.Write(counter); err != nil {
		return err
	}
	if counter.n != size {
		return fmt.Errorf("wrote %d bytes; %s %v needs %d", counter.n, t.DType, t.Shape, size)
	}
	return nil
}

type countingWriter struct {
	w io.Writer
	n uint64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += uint64(n)
	return n, err
}
