package cpu

import (
	"math"
	"testing"
)

func TestCodebooksEqualThePaper(t *testing.T) {
	want := tensorFile(t, "testdata/adamw_8bit.safetensors")
	for name, c := range map[string]*codebook{"signed": signedCodes(), "unsigned": unsignedCodes()} {
		for i, v := range want(name) {
			if c.values[i] != v {
				t.Errorf("%s: code %d is %v, want %v", name, i, c.values[i], v)
			}
			if got := c.code(v); int(got) != i {
				t.Errorf("%s: %v has code %d, want %d", name, v, got, i)
			}
		}
	}
}

// Every number becomes the nearest number of the map, for all leading bits.
func TestCodesAreNearest(t *testing.T) {
	for name, c := range map[string]*codebook{"signed": signedCodes(), "unsigned": unsignedCodes()} {
		for half, first := range c.first {
			if first < math.MaxUint8 && c.upper[first+1] < uint32(half)<<16|0xffff {
				t.Fatalf("%s: numbers with the leading bits %#x have more than two codes", name, half)
			}
		}
		random := uint64(1)
		for range 10_000 {
			random = mix(random)
			x := math.Pow(10, -8.5*float64(random>>40)*0x1p-24)
			if name == "signed" && random&1 != 0 {
				x = -x
			}
			got := c.code(float32(x))
			nearest := math.Inf(1)
			for _, v := range c.values {
				nearest = min(nearest, math.Abs(float64(v)-x))
			}
			if d := math.Abs(float64(c.values[got]) - x); d > nearest+1e-7*math.Abs(x) && !(name == "unsigned" && got == 1) {
				t.Fatalf("%s: %v became %v, %v off; the nearest is %v off", name, x, c.values[got], d, nearest)
			}
		}
		for _, x := range []float32{1, 1.0000001, 2, float32(math.Inf(1))} {
			if got := c.code(x); got != 255 {
				t.Errorf("%s: %v has code %d", name, x, got)
			}
		}
		if v := c.values[c.code(0)]; v != 0 {
			t.Errorf("%s: 0 became %v", name, v)
		}
	}
	for _, x := range []float32{math.SmallestNonzeroFloat32, 1e-30, 1e-8} {
		if got := unsignedCodes().code(x); got != 1 {
			t.Errorf("second moment %v has code %d, want 1", x, got)
		}
	}
	if got := signedCodes().values[signedCodes().code(-1)]; math.Abs(float64(got)+0.993) > 1e-4 {
		t.Errorf("-1 became %v", got)
	}
}

// Blocks without a scale, or with a scale without an inverse, are zeros. Decoded blocks encode to
// the same codes.
func TestBlocksOfCodes(t *testing.T) {
	l := &layout{index: map[string]int{}}
	l.add(slot{name: "x", shape: []int{300}})
	c := &codes{layout: l, book: signedCodes(), flat: make([]uint8, 300), scales: make([]float32, 2)}
	x := make([]float32, 44)
	for _, scale := range []float32{0, 0x1p-140, 0x1p-126, 1e-20, 1, 1e30, math.MaxFloat32} {
		for i := range x {
			x[i] = scale * c.book.values[5*i]
		}
		x[43] = scale
		c.encode(256, x)
		got := make([]float32, 44)
		c.decode(got, 256)
		if scale < 0x1p-126 {
			clear(x)
		}
		for i := range x {
			if got[i] != x[i] {
				t.Fatalf("scale %v: element %d became %v, want %v", scale, i, got[i], x[i])
			}
		}
	}
}
