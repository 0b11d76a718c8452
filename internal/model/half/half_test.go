package half

import (
	"math"
	"testing"
)

func TestF16IsExactForEveryInput(t *testing.T) {
	for h := range 1 << 16 {
		exponent, fraction := h>>10&31, h&1023
		want := math.Ldexp(1+float64(fraction)/1024, exponent-15)
		switch {
		case exponent == 0:
			want = math.Ldexp(float64(fraction)/1024, -14)
		case exponent == 31 && fraction == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		if h>>15 == 1 {
			want = -want
		}
		got := float64(F16(uint16(h)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) || math.Signbit(got) != (h>>15 == 1) && !math.IsNaN(want) {
			t.Fatalf("F16(%#04x) = %v, want %v", h, got, want)
		}
	}
}

func TestF16RoundTrips(t *testing.T) {
	for h := range 1 << 16 {
		if got := ToF16(F16(uint16(h))); int(got) != h && !(h&0x7fff > 0x7c00 && got&0x7fff > 0x7c00) {
			t.Fatalf("ToF16(F16(%#04x)) = %#04x", h, got)
		}
	}
}

func TestBF16RoundTrips(t *testing.T) {
	for b := range 1 << 16 {
		wide := BF16(uint16(b))
		if back := ToBF16(wide); back != uint16(b) && !math.IsNaN(float64(wide)) {
			t.Fatalf("%#04x → %v → %#04x", b, wide, back)
		}
	}
}

func TestToBF16RoundsToNearestEven(t *testing.T) {
	for bits, want := range map[uint32]uint16{
		0x3f800000: 0x3f80, 0x3f807fff: 0x3f80, 0x3f808000: 0x3f80, 0x3f808001: 0x3f81, 0x3f818000: 0x3f82, 0xbf818000: 0xbf82,
		0x7f7fffff: 0x7f80, 0x7f800000: 0x7f80, 0x00000001: 0, 0x80000000: 0x8000,
	} {
		if got := ToBF16(math.Float32frombits(bits)); got != want {
			t.Errorf("ToBF16(%#08x) = %#04x, want %#04x", bits, got, want)
		}
	}
	if got := ToBF16(math.Float32frombits(0x7f800001)); !math.IsNaN(float64(BF16(got))) {
		t.Errorf("a NaN became %#04x", got)
	}
}
