package kernel

import (
	"math"
	"testing"
)

// TestBF16 rounds every upper half with lower halves around the tie, and widens every word back.
func TestBF16(t *testing.T) {
	lower := []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff}
	src := make([]float32, 0, 1<<16)
	eachSet(t, func(t *testing.T) {
		for _, low := range lower {
			src = src[:0]
			for high := range uint32(1 << 16) {
				src = append(src, math.Float32frombits(high<<16|low))
			}
			src = src[:len(src)-3] // part lanes
			dst, back := make([]uint16, len(src)), make([]float32, len(src))
			F32ToBF16(dst, src)
			BF16ToF32(back, dst)
			for i, v := range src {
				checkBF16(t, v, dst[i])
				if math.Float32bits(back[i]) != uint32(dst[i])<<16 {
					t.Fatalf("%#04x widens to %#08x", dst[i], math.Float32bits(back[i]))
				}
			}
		}
	})
}

func checkBF16(t *testing.T, v float32, got uint16) {
	t.Helper()
	bits := math.Float32bits(v)
	low, high := uint16(bits>>16), uint16(bits>>16)+1
	switch down := bits & 0xffff; {
	case v != v:
		if w := fromBF16(got); w == w {
			t.Fatalf("%#08x, not a number, became %#04x", bits, got)
		}
	case down < 0x8000 && got != low, down > 0x8000 && got != high, down == 0x8000 && got != low+low&1:
		t.Fatalf("%#08x became %#04x", bits, got)
	}
}

// TestF16 widens every half and compares with its value by the format's definition.
func TestF16(t *testing.T) {
	src, dst := make([]uint16, 1<<16), make([]float32, 1<<16)
	for i := range src {
		src[i] = uint16(i)
	}
	F16ToF32(dst, src)
	for h, got := range dst {
		exponent, mantissa := h>>10&31, float64(h&1023)
		want := math.Ldexp(1+mantissa/1024, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(mantissa, -24)
		case exponent == 31 && mantissa == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		if h&0x8000 != 0 {
			want = -want
		}
		if math.IsNaN(want) != (got != got) || !math.IsNaN(want) && (float64(got) != want || math.Signbit(float64(got)) != math.Signbit(want)) {
			t.Fatalf("%#04x: %v, want %v", h, got, want)
		}
	}
}
