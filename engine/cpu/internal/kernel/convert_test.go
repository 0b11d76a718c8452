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
