package kernel

import (
	"fmt"
	"math"
)

// BF16ToF32 widens bf16 words into dst, of the same length; exact.
func BF16ToF32(dst []float32, src []uint16) {
	checkLen("BF16ToF32", dst, len(src))
	n := len(src) &^ (lanes - 1)
	if n > 0 {
		current().fromBF16(&dst[0], &src[0], n)
	}
	for i := n; i < len(src); i++ {
		dst[i] = fromBF16(src[i])
	}
}

// F32ToBF16 rounds src to the nearest bf16 words, ties to even. A NaN stays a NaN.
func F32ToBF16(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernel: F32ToBF16: %d elements, want %d", len(dst), len(src)))
	}
	n := len(src) &^ (lanes - 1)
	if n > 0 {
		current().toBF16(&dst[0], &src[0], n)
	}
	for i := n; i < len(src); i++ {
		dst[i] = toBF16(src[i])
	}
}

// RoundToBF16 rounds each element to the nearest bf16 number, on all cores of the pool.
func RoundToBF16(pool *Pool, v []float32) {
	const block = 1 << 14
	pool.Run((len(v)+block-1)/block, func(i int) {
		var words [block]uint16
		piece := v[i*block : min((i+1)*block, len(v))]
		F32ToBF16(words[:len(piece)], piece)
		BF16ToF32(piece, words[:len(piece)])
	})
}

// F16ToF32 widens IEEE half-precision words into dst, of the same length; exact.
func F16ToF32(dst []float32, src []uint16) {
	checkLen("F16ToF32", dst, len(src))
	for i, h := range src {
		dst[i] = fromF16(h)
	}
}

// fromF16 moves the exponent and mantissa of a half into place and multiplies by 2^112 to correct
// the bias, which is exact for subnormals too. Infinities and NaNs get their exponent directly.
func fromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	magnitude := uint32(h&0x7fff) << 13
	if h&0x7c00 == 0x7c00 {
		return math.Float32frombits(sign | magnitude | 0x7f800000)
	}
	return math.Float32frombits(sign | math.Float32bits(math.Float32frombits(magnitude)*0x1p112))
}
