package cpu

import (
	"fmt"
	"io"
	"slices"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// stack is the place of neighbouring matrices with the same input in a vector of weights: the panels of [rows, cols].
type stack struct{ at, rows, cols int }

// of returns the matrices in a vector of weights.
func (s *stack) of(weights []float32) kernel.Packed {
	return kernel.ViewPacked(weights[s.at:s.at+kernel.PackedFloats(s.rows, s.cols)], s.rows, s.cols)
}

// view finds tensors in a flat vector, which may be nil.
type view struct {
	layout  *layout
	flat    []float32
	weights bool // the vector has weights, so its matrices are in panels
}

// vector returns a tensor that is no matrix; nil if there is none.
func (v view) vector(name string) []float32 {
	if s, ok := v.layout.find(name); ok && v.weights && v.flat != nil {
		return v.flat[s.at : s.at+s.size() : s.at+s.size()]
	}
	return v.layout.in(v.flat, name)
}

// matrix returns the matrix [rows of all names, in] that neighbouring tensors form. It is empty if the layout lacks one of them.
func (v view) matrix(names ...string) kernel.Matrix {
	s, ok := v.layout.find(names[0])
	switch {
	case !ok || !v.weights || v.flat == nil:
		return v.layout.block(v.flat, names...)
	case s.stack == nil:
		return kernel.NewMatrix(v.vector(names[0]), s.shape[0], s.size()/s.shape[0])
	}
	p := s.stack.of(v.flat)
	return p.Weights()
}

// biases returns the neighbouring biases of several maps as one; nil if there are none.
func (v view) biases(names ...string) []float32 {
	n := 0
	for _, name := range names {
		s, ok := v.layout.find(name)
		if !ok || v.flat == nil {
			return nil
		}
		n += s.size()
	}
	s, _ := v.layout.find(names[0])
	at := s.from
	if v.weights {
		at = s.at
	}
	return v.flat[at : at+n : at+n]
}

// span is a part of a tensor of weights, which one task reads or changes.
type span struct {
	slot  *slot
	first int // element of the tensor
	n     int
}

// spans cuts a tensor into parts of about so many elements: whole rows in multiples of 256 elements, if it is in panels.
func (s *slot) spans(most int) (all []span) {
	step := most
	if s.stack != nil {
		rows := max(16, most/s.stack.cols/16*16)
		if rows*s.stack.cols%codeBlock != 0 {
			rows = codeBlock
		}
		step = rows * s.stack.cols
	}
	for first := 0; first < s.size(); first += step {
		all = append(all, span{s, first, min(step, s.size()-first)})
	}
	return all
}

// spans cuts all tensors.
func (l *layout) spans(most int) (all []span) {
	for i := range l.slots {
		all = append(all, l.slots[i].spans(most)...)
	}
	return all
}

// rows returns the rows of the stack that hold the part.
func (p span) rows() (from, to int) {
	from = p.slot.row + p.first/p.slot.stack.cols
	return from, from + p.n/p.slot.stack.cols
}

// direct returns the part where it is, unless it is in panels.
func (p span) direct(weights []float32) []float32 {
	if p.slot.stack != nil {
		return nil
	}
	return weights[p.slot.at+p.first : p.slot.at+p.first+p.n]
}

// read copies the part from a vector of weights to dst, row-major.
func (p span) read(dst, weights []float32) {
	if w := p.direct(weights); w != nil {
		copy(dst, w)
		return
	}
	from, to := p.rows()
	whole := p.slot.stack.of(weights)
	whole.Rows(dst, from, to)
}

// write replaces the part in a vector of weights by src, row-major.
func (p span) write(weights, src []float32) {
	if w := p.direct(weights); w != nil {
		copy(w, src)
		return
	}
	from, to := p.rows()
	whole := p.slot.stack.of(weights)
	whole.SetRows(src, from, to)
}

// change calls do with the part, row-major, and keeps what do makes of it.
func (p span) change(pool *kernel.Pool, weights []float32, do func(w []float32)) {
	p.fill(pool, weights, func(w []float32) {
		if p.slot.stack != nil {
			p.read(w, weights)
		}
		do(w)
	})
}

// fill is change for a do that writes every element and reads none.
func (p span) fill(pool *kernel.Pool, weights []float32, do func(w []float32)) {
	if w := p.direct(weights); w != nil {
		do(w)
		return
	}
	buf := pool.Borrow(p.n)
	defer pool.Return(buf)
	do(buf)
	p.write(weights, buf)
}

// tensor returns a tensor of a vector of weights, row-major: where it is, or a copy.
func (l *layout) tensor(weights []float32, name string) ([]float32, error) {
	s, ok := l.find(name)
	if !ok {
		return nil, fmt.Errorf("cpu: the model has no tensor %s", name)
	}
	whole := span{&s, 0, s.size()}
	if w := whole.direct(weights); w != nil {
		return w, nil
	}
	out := make([]float32, s.size())
	whole.read(out, weights)
	return out, nil
}

// weightVector is a vector of weights.
type weightVector struct {
	prefix  string
	layout  *layout
	weights []float32
}

// partSize is the number of elements that are read or written at once.
const partSize = 1 << 16

// entries implements stored.
func (v weightVector) entries() (out []safetensors.Entry) {
	for i := range v.layout.slots {
		s := &v.layout.slots[i]
		write := func(w io.Writer) error {
			var buf []float32
			for _, p := range s.spans(partSize) {
				buf = slices.Grow(buf[:0], p.n)[:p.n]
				p.read(buf, v.weights)
				if err := safetensors.Encode(w, safetensors.F32, buf); err != nil {
					return err
				}
			}
			return nil
		}
		out = append(out, safetensors.Entry{Name: v.prefix + s.name, DType: safetensors.F32, Shape: s.shape, Write: write})
	}
	return out
}

// read implements stored.
func (v weightVector) read(file *safetensors.File) error {
	var buf []float32
	for i := range v.layout.slots {
		s := &v.layout.slots[i]
		err := readParts(file, v.prefix+s.name, s.shape, func(t safetensors.Tensor) error {
			for _, p := range s.spans(partSize) {
				buf = slices.Grow(buf[:0], p.n)[:p.n]
				if err := t.Range(buf, p.first); err != nil {
					return err
				}
				p.write(v.weights, buf)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
