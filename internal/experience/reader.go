package experience

import (
	"encoding/binary"
	"math"

	"github.com/trinity-go/trinity"
)

// reader reads values from the front of data. Once a value is missing, failed is set and all values
// are zero.
type reader struct {
	data   []byte
	length int // maximum count of numbers in a field
	failed bool
}

func (r *reader) take(n uint64) []byte {
	if r.failed || n > uint64(len(r.data)) {
		r.failed = true
		return nil
	}
	out := r.data[:n:n]
	r.data = r.data[n:]
	return out
}

func (r *reader) rest() []byte { return r.take(uint64(len(r.data))) }

// bytes reads a length and that many bytes.
func (r *reader) bytes() []byte { return r.take(r.uvarint()) }

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) word() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) double() float64 {
	if b := r.take(8); b != nil {
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.data)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.failed = true
		return
	}
	r.take(uint64(n))
}

// int reads a varint that fits an int32.
func (r *reader) int() int {
	v := r.uvarint()
	if v > math.MaxInt32 {
		r.failed = true
		return 0
	}
	return int(v)
}

// words reads the rest of the field, which must be 4-byte numbers.
func (r *reader) words() []byte {
	data := r.rest()
	if len(data)%4 != 0 {
		r.failed = true
		return nil
	}
	return data
}

func (r *reader) tokens() []int32 {
	data := r.words()
	out := make([]int32, len(data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

func (r *reader) floats() []float32 {
	if r.byte() == formRuns {
		return r.runs()
	}
	data := r.words()
	out := make([]float32, len(data)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// runs reads at most as many numbers as there are tokens, whose field comes before.
func (r *reader) runs() []float32 {
	out := make([]float32, 0, r.length)
	for len(r.data) > 0 && !r.failed {
		n, v := r.uvarint(), math.Float32frombits(r.word())
		if n > uint64(cap(out)-len(out)) {
			r.failed = true
			return nil
		}
		for range n {
			out = append(out, v)
		}
	}
	return out
}

func (r *reader) reward() trinity.Reward {
	reward := trinity.Reward{Valid: r.byte() == 1, Value: r.double(), Reason: string(r.bytes())}
	if len(r.data) > 0 {
		reward.Parts = r.numbers()
	}
	return reward
}

// numbers reads numbers by name, as appendNumbers writes them.
func (r *reader) numbers() map[string]float64 {
	const least = 1 + 8 // bytes of a number with an empty name
	n := r.uvarint()
	if r.failed || n > uint64(len(r.data)/least) {
		r.failed = true
		return nil
	}
	out := make(map[string]float64, n)
	for range n {
		name := string(r.bytes())
		out[name] = r.double()
	}
	return out
}

func (r *reader) images() (images []trinity.Image) {
	for len(r.data) > 0 && !r.failed {
		images = append(images, trinity.Image{Digest: string(r.bytes()), At: r.int(), Len: r.int(), Grid: [3]int{r.int(), r.int(), r.int()}})
	}
	return images
}
