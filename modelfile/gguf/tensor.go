package gguf

import (
	"fmt"

	"github.com/trinity-go/trinity/modelfile/internal/half"
)

// Tensor is one tensor of a file. Shape is row-major ([out, in] for a matrix, the reverse of GGUF's own
// order). Data is the file's own memory: read-only, and gone after File.Close.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int
	Data  []byte
}

// Len is the number of elements.
func (t Tensor) Len() int {
	l := layouts[t.Type]
	return len(t.Data) / l.bytes * l.elements
}

// Range converts the len(dst) elements from element number from to float32. Both must be whole blocks of the
// storage type, as whole rows always are. It may be called from several goroutines.
func (t Tensor) Range(dst []float32, from int) error {
	l := layouts[t.Type]
	if from < 0 || from > t.Len()-len(dst) {
		return fmt.Errorf("gguf: tensor %s: elements %d to %d asked of %d", t.Name, from, from+len(dst), t.Len())
	}
	if from%l.elements != 0 || len(dst)%l.elements != 0 {
		return fmt.Errorf("gguf: tensor %s: elements %d to %d are no whole %s blocks of %d", t.Name, from, from+len(dst), t.Type, l.elements)
	}
	src := t.Data[from/l.elements*l.bytes:]
	switch t.Type {
	case F32:
		half.CopyF32(dst, src)
	case F16:
		half.WidenF16(dst, src)
	case BF16:
		half.WidenBF16(dst, src)
	default:
		for len(dst) > 0 {
			l.decode(dst[:l.elements], src[:l.bytes])
			dst, src = dst[l.elements:], src[l.bytes:]
		}
	}
	return nil
}
