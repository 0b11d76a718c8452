// Package half converts between float32 and the two 16-bit floating-point formats of model files:
// IEEE 754 binary16 (f16) and bfloat16 (bf16).
package half

import (
	"encoding/binary"
	"math"
)

// F16 converts an IEEE binary16 number to float32, exactly.
func F16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent := uint32(h>>10) & 0x1f
	fraction := uint32(h) & 0x3ff
	switch exponent {
	case 0: // zero or subnormal: fraction · 2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)*0x1p-24))
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// BF16 converts a bfloat16 number to float32, exactly.
func BF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// ToBF16 rounds to the nearest bfloat16, ties to even; a NaN stays a (quiet) NaN.
func ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// ToF16 rounds to the nearest IEEE binary16 number, ties to even. Numbers from 65520 on become
// infinite; a NaN stays a (quiet) NaN.
func ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, magnitude := uint16(bits>>16)&0x8000, bits&0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7e00 | uint16(magnitude>>13&0x3ff)
	case magnitude >= 0x477ff000: // 65520
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2⁻¹⁴: a multiple of 2⁻²⁴
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*0x1p24))
	}
	return sign | uint16((magnitude+0xfff+magnitude>>13&1)>>13-112<<10)
}

// Widen decodes len(dst) little-endian numbers from src. isKnown is false for types other than F32, F16 and
// BF16.
func Widen(dst []float32, src []byte, dtype string) (isKnown bool) {
	switch dtype {
	case "F32":
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case "F16":
		for i := range dst {
			dst[i] = F16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case "BF16":
		for i := range dst {
			dst[i] = BF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		return false
	}
	return true
}
