package kernel

import "fmt"

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
