package gguf

import (
	"fmt"

	"github.com/trinity-go/trinity/internal/model/half"
)

// Tensor is one tensor of a file. Shape is row-major ([out, in] for a matrix, the reverse of GGUF's
// own order). Data is mapped memory: read-only and invalid after File.Close.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int
	Data  []byte
}

// Len returns the number of elements.
func (t Tensor) Len() int {
	l := layouts[t.Type]
	return len(t.Data) / l.bytes * l.elements
}

// Range fills dst with the len(dst) elements that begin at element number from, as float32. Both
// must be multiples of the type's block length, as whole rows always are. Several goroutines may
// call it at once.
func (t Tensor) Range(dst []float32, from int) error {
	l := layouts[t.Type]
	if from < 0 || from > t.Len()-len(dst) {
		return fmt.Errorf("gguf: tensor %s: no elements %d to %d, as there are %d", t.Name, from, from+len(dst), t.Len())
	}
	if from%l.elements != 0 || len(dst)%l.elements != 0 {
		return fmt.Errorf("gguf: tensor %s: elements %d to %d are not whole %s blocks of %d", t.Name, from, from+len(dst), t.Type, l.elements)
	}
	src := t.Data[from/l.elements*l.bytes:]
	if half.Widen(dst, src, l.name) {
		return nil
	}
	for len(dst) > 0 {
		l.decode(dst[:l.elements], src[:l.bytes])
		dst, src = dst[l.elements:], src[l.bytes:]
	}
	return nil
}
