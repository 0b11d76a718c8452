// Package safetensors reads and writes the safetensors file format: 8 bytes little-endian length of
// a JSON header, the header (name → dtype, shape, offsets), then the tensors' bytes.
//
// Open maps a file and never copies it. It checks the whole header against the file.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/model/half"
	"github.com/trinity-go/trinity/internal/model/mapped"
)

// maxHeader is the largest header in bytes; the reference implementation has the same limit.
const maxHeader = 100_000_000

// File is an open safetensors file.
type File struct {
	Path     string
	Metadata map[string]string // the "__metadata__" entry; nil if there is none

	tensors map[string]Tensor
	names   []string // in file order
	mapping *mapped.File
}

// Tensor is one tensor of a file. Data is mapped memory: read-only and invalid after File.Close.
type Tensor struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte

	path string
}

// Open maps the file at path and checks its header: length, names and dtypes are valid, and the
// tensors fill the file without overlap or gap.
func Open(path string) (*File, error) {
	mapping, err := mapped.Open(path)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	f, err := Parse(path, mapping.Bytes)
	if err != nil {
		mapping.Close()
		return nil, err
	}
	f.mapping = mapping
	return f, nil
}

// Parse reads a file that is in memory, as Open reads one on the disk. name stands for it in errors.
func Parse(name string, data []byte) (*File, error) {
	f, err := parse(name, data)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	return f, nil
}

// Names lists the tensors in file order.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor returns the tensor of a name; ok is false if there is none.
func (f *File) Tensor(name string) (t Tensor, ok bool) {
	t, ok = f.tensors[name]
	return t, ok
}

// Close unmaps the file. Nothing may use its tensors afterwards.
func (f *File) Close() error { return f.mapping.Close() }

// Len returns the number of elements.
func (t Tensor) Len() int { return len(t.Data) / t.DType.size() }

// Range fills dst with the len(dst) elements that begin at element number from, as float32. Several
// goroutines may call it at once. The dtype must be F32, F16 or BF16.
func (t Tensor) Range(dst []float32, from int) error {
	if from < 0 || from > t.Len()-len(dst) {
		return fmt.Errorf("safetensors: %s: tensor %s: no elements %d to %d, as there are %d", t.path, t.Name, from, from+len(dst), t.Len())
	}
	size := t.DType.size()
	if !half.Widen(dst, t.Data[from*size:(from+len(dst))*size], string(t.DType)) {
		return fmt.Errorf("safetensors: %s: tensor %s: cannot read dtype %s as numbers; expected F32, F16 or BF16", t.path, t.Name, t.DType)
	}
	return nil
}

func parse(path string, file []byte) (*File, error) {
	if len(file) < 8 {
		return nil, fmt.Errorf("a file of %d bytes is too short for a header length; expected at least 8", len(file))
	}
	length := binary.LittleEndian.Uint64(file)
	if length > maxHeader {
		return nil, fmt.Errorf("header of %d bytes; at most %d are accepted", length, maxHeader)
	}
	if length > uint64(len(file)-8) {
		return nil, fmt.Errorf("header of %d bytes in a file of %d: the file is truncated or not a safetensors file", length, len(file))
	}
	header, data := file[8:8+length], file[8+length:]
	f := &File{Path: path, tensors: map[string]Tensor{}}
	ranges, err := f.readHeader(header, uint64(len(data)))
	if err != nil {
		return nil, err
	}
	if err := checkCover(ranges, uint64(len(data))); err != nil {
		return nil, err
	}
	for _, r := range ranges {
		t := f.tensors[r.name]
		t.Data = data[r.begin:r.end:r.end]
		f.tensors[r.name] = t
		f.names = append(f.names, r.name)
	}
	return f, nil
}

type extent struct {
	name       string
	begin, end uint64
}

// readHeader reads the top-level object by hand, because encoding/json silently accepts repeated
// keys.
func (f *File) readHeader(header []byte, dataLen uint64) ([]extent, error) {
	decoder := json.NewDecoder(bytes.NewReader(header))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("header is not a JSON object")
	}
	var ranges []extent
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("header: %w", err)
		}
		name := token.(string)
		if name == "__metadata__" {
			if f.Metadata != nil {
				return nil, fmt.Errorf("header: __metadata__ appears twice")
			}
			f.Metadata = map[string]string{}
			if err := decoder.Decode(&f.Metadata); err != nil {
				return nil, fmt.Errorf("header: __metadata__: %w", err)
			}
			continue
		}
		r, err := f.readTensor(name, decoder, dataLen)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		ranges = append(ranges, r)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if rest, err := io.ReadAll(decoder.Buffered()); err != nil || strings.Trim(string(rest), " \t\r\n\x00") != "" {
		return nil, fmt.Errorf("header: text after the JSON object")
	}
	return ranges, nil
}

func (f *File) readTensor(name string, decoder *json.Decoder, dataLen uint64) (extent, error) {
	var entry struct {
		DType   DType    `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets []uint64 `json:"data_offsets"`
	}
	if err := decoder.Decode(&entry); err != nil {
		return extent{}, err
	}
	if _, repeated := f.tensors[name]; repeated {
		return extent{}, fmt.Errorf("appears twice")
	}
	size, err := byteSize(entry.DType, entry.Shape)
	if err != nil {
		return extent{}, err
	}
	if len(entry.Offsets) != 2 || entry.Offsets[0] > entry.Offsets[1] || entry.Offsets[1] > dataLen {
		return extent{}, fmt.Errorf("data_offsets %v; expected [begin, end] within %d bytes of data", entry.Offsets, dataLen)
	}
	if got := entry.Offsets[1] - entry.Offsets[0]; got != size {
		return extent{}, fmt.Errorf("%d bytes of data; %s %v needs %d", got, entry.DType, entry.Shape, size)
	}
	f.tensors[name] = Tensor{Name: name, DType: entry.DType, Shape: entry.Shape, path: f.Path}
	return extent{name, entry.Offsets[0], entry.Offsets[1]}, nil
}

// checkCover sorts the extents and returns an error unless they cover the data exactly.
func checkCover(ranges []extent, dataLen uint64) error {
	slices.SortStableFunc(ranges, func(a, b extent) int {
		if a.begin != b.begin {
			return cmp.Compare(a.begin, b.begin)
		}
		return cmp.Compare(a.end, b.end)
	})
	var end uint64
	for _, r := range ranges {
		if r.begin != end {
			return fmt.Errorf("tensor %q begins at byte %d of the data; expected %d (tensors must neither overlap nor leave gaps)",
				r.name, r.begin, end)
		}
		end = r.end
	}
	if end != dataLen {
		return fmt.Errorf("tensors use %[2]d of %[1]d bytes of data: the file is damaged", dataLen, end)
	}
	return nil
}
