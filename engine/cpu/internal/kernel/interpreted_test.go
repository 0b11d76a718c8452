package kernel

import (
	"fmt"
	"math"
	"testing"
	"unsafe"
)

// interpreted is the set of AVX-512 kernels, VNNI among them, as their text says it. What it
// borrows from AVX2 is portable's.
func interpreted(t *testing.T) *kernels {
	m := interpret(t, "avx512_amd64.s", "int8_vnni_amd64.s")
	ks := portable
	ks.name, ks.rows, ks.tiles = "avx512 interpreted", 12, [maxRows + 1][4]tileFunc{}
	ks.tilesPairs = ks.tiles
	for rows := 1; rows <= maxRows; rows++ {
		for wide := range 4 {
			name := fmt.Sprintf("avx512Tile%dx%d", rows, 1<<wide)
			if m.functions[name] != nil {
				ks.tiles[rows][wide], ks.tilesPairs[rows][wide] = m.tile(name), m.tile(name+"Pairs")
			}
		}
	}
	ks.int8 = &int8Kernels{rows: 12, quantize: func(dst *int8Inputs, src *float32, limit float32, blocks int) {
		m.call("vnniInt8Quantize", map[string]place{"dst": address(unsafe.Pointer(dst)), "src": address(unsafe.Pointer(src)),
			"limit": float(limit), "blocks": number(blocks)})
	}}
	for rows := 1; rows <= maxRows; rows++ {
		ks.int8.tiles[rows] = m.int8Tile(fmt.Sprint("vnniInt8Tile", rows))
	}
	ks.dealTile, ks.dealPanel = m.deal("avx512DealTile"), m.deal("avx512DealPanel")
	m.rowKernels(&ks)
	return &ks
}

func (m *machine) tile(name string) tileFunc {
	return func(groups, kc int, a unsafe.Pointer, ars, aks, ags int, b unsafe.Pointer, bks, bps, ahead, aheadStep int, c unsafe.Pointer, ldc, accumulate int) {
		m.call(name, map[string]place{"groups": number(groups), "kc": number(kc), "a": address(a), "ars": number(ars), "aks": number(aks),
			"ags": number(ags), "b": address(b), "bks": number(bks), "bps": number(bps), "ahead": number(ahead), "aheadStep": number(aheadStep),
			"c": address(c), "ldc": number(ldc), "accumulate": number(accumulate)})
	}
}

func (m *machine) deal(name string) dealFunc {
	return func(dst, src unsafe.Pointer, lds, n, groups, stride int) {
		m.call(name, map[string]place{"dst": address(dst), "src": address(src), "lds": number(lds), "n": number(n),
			"groups": number(groups), "stride": number(stride)})
	}
}

func (m *machine) int8Tile(name string) int8Tile {
	return func(blocks int, a *int8Inputs, ars int, b *int8Weights, c *float32, ldc int) {
		m.call(name, map[string]place{"blocks": number(blocks), "a": address(unsafe.Pointer(a)), "ars": number(ars),
			"b": address(unsafe.Pointer(b)), "c": address(unsafe.Pointer(c)), "ldc": number(ldc)})
	}
}

// row calls a kernel over n elements.
func (m *machine) row(name string, n int, slots map[string]place) float32 {
	slots["n"] = number(n)
	return math.Float32frombits(m.call("avx512"+name, slots))
}

func (m *machine) rowKernels(ks *kernels) {
	type slots = map[string]place
	p := func(x *float32) place { return address(unsafe.Pointer(x)) }
	ks.dot = func(x, y *float32, n int) float32 { return m.row("Dot", n, slots{"x": p(x), "y": p(y)}) }
	ks.dot3 = func(x, y, z *float32, n int) float32 {
		return m.row("Dot3", n, slots{"x": p(x), "y": p(y), "z": p(z)})
	}
	ks.max = func(x *float32, n int) float32 { return m.row("Max", n, slots{"x": p(x)}) }
	ks.axpy = func(y, x *float32, a float32, n int) { m.row("Axpy", n, slots{"y": p(y), "x": p(x), "a": float(a)}) }
	ks.add = func(y, x *float32, n int) { m.row("Add", n, slots{"y": p(y), "x": p(x)}) }
	ks.scale = func(y, x *float32, a float32, n int) { m.row("Scale", n, slots{"y": p(y), "x": p(x), "a": float(a)}) }
	ks.scaleMul = func(y, x, w *float32, a float32, n int) {
		m.row("ScaleMul", n, slots{"y": p(y), "x": p(x), "w": p(w), "a": float(a)})
	}
	ks.normDX = func(dx, dy, x, w *float32, rstd, c float32, n int) {
		m.row("NormDX", n, slots{"dx": p(dx), "dy": p(dy), "x": p(x), "w": p(w), "rstd": float(rstd), "c": float(c)})
	}
	ks.mulAdd = func(dw, dy, x *float32, rstd float32, n int) {
		m.row("MulAdd", n, slots{"dw": p(dw), "dy": p(dy), "x": p(x), "rstd": float(rstd)})
	}
	ks.exp = func(y, x *float32, n int) { m.row("Exp", n, slots{"y": p(y), "x": p(x)}) }
	ks.expSum = func(y, x *float32, max float32, n int) float32 {
		return m.row("ExpSum", n, slots{"y": p(y), "x": p(x), "m": float(max)})
	}
	ks.entropySum = func(x *float32, max float32, sums *[2]float32, n int) {
		m.row("EntropySum", n, slots{"x": p(x), "m": float(max), "sums": p(&sums[0])})
	}
	ks.logitGrad = func(x *float32, lse, a, b float32, n int) {
		m.row("LogitGrad", n, slots{"x": p(x), "lse": float(lse), "a": float(a), "b": float(b)})
	}
	ks.swiglu = func(y, gate, up *float32, n int) {
		m.row("Swiglu", n, slots{"y": p(y), "gate": p(gate), "up": p(up)})
	}
	ks.swigluGrad = func(dgate, dup, dy, gate, up *float32, n int) {
		m.row("SwigluGrad", n, slots{"dgate": p(dgate), "dup": p(dup), "dy": p(dy), "gate": p(gate), "up": p(up)})
	}
	ks.geglu = func(y, gate, up *float32, n int) {
		m.row("Geglu", n, slots{"y": p(y), "gate": p(gate), "up": p(up)})
	}
	ks.gegluGrad = func(dgate, dup, dy, gate, up *float32, n int) {
		m.row("GegluGrad", n, slots{"dgate": p(dgate), "dup": p(dup), "dy": p(dy), "gate": p(gate), "up": p(up)})
	}
	ks.rotate = func(x0, x1, cos, sin *float32, sign float32, n int) {
		m.row("Rotate", n, slots{"x0": p(x0), "x1": p(x1), "cos": p(cos), "sin": p(sin), "sign": float(sign)})
	}
	ks.softGrad = func(dp, probabilities *float32, delta, scale float32, n int) {
		m.row("SoftGrad", n, slots{"dp": p(dp), "p": p(probabilities), "delta": float(delta), "scale": float(scale)})
	}
	ks.adamw = func(param, g, mean, v *float32, c *adamConstants, n int) {
		m.row("Adamw", n, slots{"param": p(param), "grad": p(g), "m": p(mean), "v": p(v), "c": address(unsafe.Pointer(c))})
	}
}
