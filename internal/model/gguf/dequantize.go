package gguf

import (
	"encoding/binary"

	"github.com/trinity-go/trinity/internal/model/half"
)

// Each decode function converts one block to its elements. The conversions round products to
// float32 before the addition and so forbid fused multiply-add: every machine reads the same
// weights.

func f16At(block []byte, i int) float32 { return half.F16(binary.LittleEndian.Uint16(block[i:])) }

// Q4_0: scale d, 16 bytes of nibbles q: (q−8)·d.
func decodeQ4_0(dst []float32, block []byte) {
	d, q := f16At(block, 0), block[2:18]
	for i, b := range q {
		dst[i] = float32(int(b&15)-8) * d
		dst[i+16] = float32(int(b>>4)-8) * d
	}
}

// Q4_1: scale d, minimum m, nibbles q: q·d + m.
func decodeQ4_1(dst []float32, block []byte) {
	d, m, q := f16At(block, 0), f16At(block, 2), block[4:20]
	dst = dst[:32]
	for i, b := range q {
		dst[i] = float32(float32(b&15)*d) + m
		dst[i+16] = float32(float32(b>>4)*d) + m
	}
}

// Q5_0: scale d, 32 high bits, nibbles: (q−16)·d with 5-bit q.
func decodeQ5_0(dst []float32, block []byte) {
	d, high, q := f16At(block, 0), binary.LittleEndian.Uint32(block[2:]), block[6:22]
	for i, b := range q {
		dst[i] = float32(int(b&15|byte(high>>i&1)<<4)-16) * d
		dst[i+16] = float32(int(b>>4|byte(high>>(i+16)&1)<<4)-16) * d
	}
}

// Q5_1: scale d, minimum m, 32 high bits, nibbles: q·d + m with 5-bit q.
func decodeQ5_1(dst []float32, block []byte) {
	d, m, high, q := f16At(block, 0), f16At(block, 2), binary.LittleEndian.Uint32(block[4:]), block[8:24]
	for i, b := range q {
		dst[i] = float32(float32(b&15|byte(high>>i&1)<<4)*d) + m
		dst[i+16] = float32(float32(b>>4|byte(high>>(i+16)&1)<<4)*d) + m
	}
}

// Q8_0: scale d, 32 signed bytes q: q·d.
func decodeQ8_0(dst []float32, block []byte) {
	d, q := f16At(block, 0), block[2:34]
	for i, b := range q {
		dst[i] = float32(int8(b)) * d
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block i (0 … 7) of Q4_K and Q5_K from 12
// bytes.
func scaleMin(packed []byte, i int) (scale, minimum float32) {
	if i < 4 {
		return float32(packed[i] & 63), float32(packed[i+4] & 63)
	}
	return float32(packed[i+4]&15 | packed[i-4]>>6<<4), float32(packed[i+4]>>4 | packed[i]>>6<<4)
}

// Q4_K: 8 sub-blocks of 32: q·(d·scale) − dmin·min; two sub-blocks share 32 bytes of nibbles.
func decodeQ4_K(dst []float32, block []byte) {
	d, dmin, packed, q := f16At(block, 0), f16At(block, 2), block[4:16], block[16:144]
	for sub := range 8 {
		scale, minimum := scaleMin(packed, sub)
		scale, minimum = scale*d, float32(minimum*dmin)
		nibbles, shift := q[sub/2*32:][:32], 4*(sub%2)
		for i, b := range nibbles {
			dst[32*sub+i] = float32(float32(b>>shift&15)*scale) - minimum
		}
	}
}

// Q5_K: as Q4_K, with a fifth bit per element: bit sub of high byte i.
func decodeQ5_K(dst []float32, block []byte) {
	d, dmin, packed, high, q := f16At(block, 0), f16At(block, 2), block[4:16], block[16:48], block[48:176]
	for sub := range 8 {
		scale, minimum := scaleMin(packed, sub)
		scale, minimum = scale*d, float32(minimum*dmin)
		nibbles, shift := q[sub/2*32:][:32], 4*(sub%2)
		for i, b := range nibbles {
			dst[32*sub+i] = float32(float32(b>>shift&15|high[i]>>sub&1<<4)*scale) - minimum
		}
	}
}

// Q6_K: 16 sub-blocks of 16 with signed 8-bit scales: (q−32)·(d·scale); each half of 128 elements
// has 64 bytes of low nibbles and 32 bytes of high bit pairs.
func decodeQ6_K(dst []float32, block []byte) {
	d := f16At(block, 208)
	for h := range 2 {
		low, high, scales, out := block[64*h:][:64], block[128+32*h:][:32], block[192+8*h:][:8], dst[128*h:][:128]
		for i := range out {
			nibble := low[i%64] >> (4 * (i / 64)) & 15
			pair := high[i%32] >> (2 * (i / 32)) & 3
			scale := d * float32(int8(scales[i/16]))
			out[i] = float32(int(nibble|pair<<4)-32) * scale
		}
	}
}
