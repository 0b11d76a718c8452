package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/trinity-go/trinity/internal/model/half"
)

// Each encode function converts the elements of one block. As in the conversion to float32, every
// product is rounded before an addition, so every machine writes the same file.

// Q8_0: the scale d is the largest magnitude / 127; halves round away from zero.
func encodeQ8_0(block []byte, src []float32) {
	largest := float32(0)
	for _, x := range src {
		largest = max(largest, max(x, -x))
	}
	d := largest / 127
	inverse := reciprocal(d)
	binary.LittleEndian.PutUint16(block, half.ToF16(d))
	for i, x := range src {
		block[2+i] = byte(int8(math.Round(float64(x * inverse))))
	}
}

// Q4_1: the minimum m, and the scale d that divides the range into 15 steps.
func encodeQ4_1(block []byte, src []float32) {
	m, largest := slices.Min(src), slices.Max(src)
	d := (largest - m) / 15
	inverse := reciprocal(d)
	binary.LittleEndian.PutUint16(block, half.ToF16(d))
	binary.LittleEndian.PutUint16(block[2:], half.ToF16(m))
	step := func(x float32) byte {
		product := (x - m) * inverse
		return byte(min(15, product+0.5))
	}
	for i := range 16 {
		block[4+i] = step(src[i]) | step(src[i+16])<<4
	}
}

// reciprocal returns 1/d, or 0 for a d whose reciprocal is not a number of float32.
func reciprocal(d float32) float32 {
	if inverse := 1 / d; !math.IsInf(float64(inverse), 0) {
		return inverse
	}
	return 0
}

// Encode writes numbers, which must be whole blocks, as a type. It returns an error for a type that
// this package does not write, and for a number that the type cannot hold.
func Encode(w io.Writer, t Type, src []float32) error {
	l := layouts[t]
	if l.encode == nil && t != F32 && t != F16 && t != BF16 {
		return fmt.Errorf("gguf: cannot write %s; expected F32, F16, BF16, Q8_0 or Q4_1", t)
	}
	if len(src)%l.elements != 0 {
		return fmt.Errorf("gguf: %d numbers are not whole %s blocks of %d", len(src), t, l.elements)
	}
	const chunk = 1 << 14 // a multiple of every block
	buffer := make([]byte, 0, min(len(src), chunk)*4)
	for part := range slices.Chunk(src, chunk) {
		buffer = buffer[:0]
		for block := range slices.Chunk(part, l.elements) {
			if err := check(t, block); err != nil {
				return err
			}
			buffer = l.append(buffer, t, block)
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}

// append appends a block. The types with blocks of one element have no encode function.
func (l layout) append(buffer []byte, t Type, block []float32) []byte {
	switch t {
	case F32:
		return binary.LittleEndian.AppendUint32(buffer, math.Float32bits(block[0]))
	case F16:
		return binary.LittleEndian.AppendUint16(buffer, half.ToF16(block[0]))
	case BF16:
		return binary.LittleEndian.AppendUint16(buffer, half.ToBF16(block[0]))
	}
	n := len(buffer)
	buffer = slices.Grow(buffer, l.bytes)[:n+l.bytes]
	l.encode(buffer[n:], block)
	return buffer
}

// check returns an error for numbers that a type with a 16-bit float in it cannot hold.
func check(t Type, block []float32) error {
	if t == F32 || t == BF16 {
		return nil
	}
	for _, x := range block {
		if !(math.Abs(float64(x)) < 65504) {
			return fmt.Errorf("the number %v does not fit into %s; choose f32 or bf16", x, t)
		}
	}
	return nil
}
