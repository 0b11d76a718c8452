package cpu

import (
	"fmt"
	"io"
	"math"
	"slices"
	"sync"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// codebook maps 8 bits to numbers from -1 to 1, in increasing order: the dynamic quantisation of
// Dettmers et al. 2022 (section 1.3). The zeros after the sign bit count decades, and the bits
// after the first one are a linear fraction within the decade:
//
//	0, 1 and ±10^-k·(0.1 + 0.9·(j + ½)/2^f),  k = 0 … 6,  j = 0 … 2^f - 1,  f = 6 - k
//
// A codebook without signs has one more bit of fraction, f = 7 - k, and only 0 becomes 0: a second
// moment of 0 under a first moment other than 0 would leave eps as the only divisor. Any other
// number becomes the nearest value.
type codebook struct {
	values [256]float32
	upper  [256]uint32 // order of the largest number that becomes values[code]
	// first is indexed by the leading half of an order. It is the code of the least number with
	// that half; other numbers with it have this code or the next.
	first [1 << 16]uint8
}

var (
	signedCodes   = sync.OnceValue(func() *codebook { return newCodebook(true) })
	unsignedCodes = sync.OnceValue(func() *codebook { return newCodebook(false) })
)

func newCodebook(signed bool) *codebook {
	values, cells := []float64{0, 1}, 128
	if signed {
		cells = 64
	}
	for k := 0; k < 7; k, cells = k+1, cells/2 {
		for j := range cells {
			v := math.Pow10(-k) * (0.1 + 0.9*(float64(j)+0.5)/float64(cells))
			values = append(values, v)
			if signed {
				values = append(values, -v)
			}
		}
	}
	slices.Sort(values)
	c := &codebook{}
	for i, v := range values {
		c.values[i], c.upper[i] = float32(v), math.MaxUint32
		if i+1 < len(values) {
			c.upper[i] = order(float32((v + values[i+1]) / 2))
		}
	}
	if !signed {
		c.upper[0] = order(0)
	}
	code := 0
	for half := range c.first {
		for c.upper[code] < uint32(half)<<16 {
			code++
		}
		c.first[half] = uint8(code)
	}
	return c
}

// order maps numbers to integers in the same order.
func order(x float32) uint32 {
	b := math.Float32bits(x)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// code returns the code of a number.
func (c *codebook) code(x float32) uint8 {
	o := order(x)
	code := c.first[o>>16]
	return code + uint8((uint64(c.upper[code])-uint64(o))>>63) // the next code if o is above
}

// codeBlock is the number of values that share a scale, the largest of their magnitudes.
const codeBlock = 256

// codes hold an 8-bit number for every weight of a layout. Its tensors begin at multiples of
// codeBlock, so no block spans two tensors.
type codes struct {
	prefix string // of the tensors' names in a saved state
	layout *layout
	book   *codebook
	flat   []uint8
	scales []float32 // one per block
}

// takeCodes takes the memory of codes in an optimizer's state.
func takeCodes(memory *account, prefix string, l *layout, book *codebook, why string) (*codes, error) {
	flat, err := memory.takeBytes("optimizer", l.size, why)
	if err != nil {
		return nil, err
	}
	scales, err := memory.take("optimizer", (l.size+codeBlock-1)/codeBlock, why)
	return &codes{prefix, l, book, flat, scales}, err
}

// decode reads the first len(dst) numbers of the block that begins at from.
func (c *codes) decode(dst []float32, from int) {
	scale, values, flat := c.scales[from/codeBlock], &c.book.values, c.flat[from:from+len(dst)]
	for i := range dst {
		dst[i] = values[flat[i]] * scale
	}
}

// encode stores x as the first numbers of the block that begins at first.
func (c *codes) encode(first int, x []float32) {
	const least = 0x1p-126 // the inverse of a smaller number is infinite
	largest := uint32(0)
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&^(1<<31))
	}
	scale := math.Float32frombits(largest)
	if scale < least {
		c.scales[first/codeBlock] = 0
		return
	}
	c.scales[first/codeBlock] = scale
	inverse, book, out := 1/scale, c.book, c.flat[first:first+len(x)]
	for i, v := range x {
		out[i] = book.code(v * inverse)
	}
}

// entries implements stored. It writes the codes as they are, and the scales under another prefix.
func (c *codes) entries() []safetensors.Entry {
	var out []safetensors.Entry
	for _, s := range c.layout.slots {
		flat, scales := c.in(s)
		out = append(out,
			safetensors.Entry{Name: c.prefix + s.name, DType: "U8", Shape: s.shape, Write: func(w io.Writer) error {
				_, err := w.Write(flat)
				return err
			}},
			safetensors.Float32s(scalePrefix+c.prefix+s.name, []int{len(scales)}, scales))
	}
	return out
}

const scalePrefix = "scale."

// in returns a tensor's codes and scales.
func (c *codes) in(s slot) (flat []uint8, scales []float32) {
	end := s.from + s.size()
	return c.flat[s.from:end], c.scales[s.from/codeBlock : (end+codeBlock-1)/codeBlock]
}

// read implements stored.
func (c *codes) read(file *safetensors.File) error {
	for _, s := range c.layout.slots {
		flat, scales := c.in(s)
		t, ok := file.Tensor(c.prefix + s.name)
		if !ok || t.DType != "U8" || !slices.Equal(t.Shape, s.shape) {
			return fmt.Errorf("cpu: %s: tensor %s is %s %v; expected U8 %v", file.Path, c.prefix+s.name, t.DType, t.Shape, s.shape)
		}
		copy(flat, t.Data)
		if err := readTensor(file, scalePrefix+c.prefix+s.name, []int{len(scales)}, scales); err != nil {
			return err
		}
	}
	return nil
}
