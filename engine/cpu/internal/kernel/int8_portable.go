package kernel

import (
	"math"
	"unsafe"
)

var portableInt8 = int8Kernels{rows: 1, tiles: [maxRows + 1]int8Tile{1: portableInt8Tile}, quantize: portableQuantize}

func portableInt8Tile(blocks int, a *int8Inputs, _ int, b *int8Weights, c *float32, _ int) {
	out, weights := unsafe.Slice(c, lanes), unsafe.Slice(b, blocks)
	for n, in := range unsafe.Slice(a, blocks) {
		w := &weights[n]
		for j := range lanes {
			sum := in.offset
			for k := range w.q {
				quad, x := &w.q[k][j], in.q[4*k:4*k+4]
				sum += int32(quad[0])*int32(x[0]) + int32(quad[1])*int32(x[1]) + int32(quad[2])*int32(x[2]) + int32(quad[3])*int32(x[3])
			}
			out[j] = fma32(mul(float32(sum), in.scale), w.scale[j], out[j])
		}
	}
}

func portableQuantize(dst *int8Inputs, src *float32, limit float32, blocks int) {
	for n := range unsafe.Slice(dst, blocks) {
		out := &unsafe.Slice(dst, blocks)[n]
		x := unsafe.Slice(src, blocks*int8Block)[n*int8Block : (n+1)*int8Block]
		var top uint32 // the bits of magnitudes are ordered as the numbers are, NaN above all
		for _, v := range x {
			top = max(top, math.Float32bits(v)&0x7fffffff)
		}
		largest := math.Float32frombits(top)
		m := max(largest, int8Tiny)
		out.scale = float32(m/limit) + float32(largest-largest)
		factor, sum := limit/m, int32(0)
		for i, v := range x {
			q := int8(math.RoundToEven(float64(mul(v, factor))))
			out.q[i] = q
			sum += int32(q)
		}
		out.offset = -64 * sum
	}
}
