package safetensors

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// DType is an element type by its name in the file format: "F32", "BF16", "I64" …
type DType string

// The element types that this package converts: [Tensor.Range] reads the first three as float32.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I32  DType = "I32"
	U8   DType = "U8"
)

// dtypes lists every type in the order of the reference implementation. It writes tensors of the
// last types first: wide types first, so that each tensor is aligned to its element size.
var dtypes = []struct {
	name  DType
	width int // bytes of one element
}{
	{"BOOL", 1}, {"U8", 1}, {"I8", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
	{"I16", 2}, {"U16", 2}, {F16, 2}, {BF16, 2},
	{"I32", 4}, {"U32", 4}, {F32, 4},
	{"C64", 8}, {"F64", 8}, {"I64", 8}, {"U64", 8},
}

func (d DType) rank() int {
	for i, t := range dtypes {
		if t.name == d {
			return i
		}
	}
	return -1
}

// size returns the number of bytes of one element; 0 for an unknown type.
func (d DType) size() int {
	if r := d.rank(); r >= 0 {
		return dtypes[r].width
	}
	return 0
}

func knownDTypes() string {
	names := make([]string, len(dtypes))
	for i, t := range dtypes {
		names[i] = string(t.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// byteSize returns the number of bytes of a tensor.
func byteSize(d DType, shape []int) (uint64, error) {
	size := uint64(d.size())
	if size == 0 {
		return 0, fmt.Errorf("dtype %.100q is unknown; known are %s", d, knownDTypes())
	}
	for _, n := range shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		high, low := bits.Mul64(size, uint64(n))
		if high != 0 || low > 1<<62 {
			return 0, fmt.Errorf("shape %v is larger than any file", shape)
		}
		size = low
	}
	return size, nil
}
