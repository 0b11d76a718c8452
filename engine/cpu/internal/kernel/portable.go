package kernel

import (
	"math"
	"unsafe"
)

// portable is the set without assembly. It defines, bit for bit, what the other sets compute, and
// is the fallback on processors that cannot run them. It is slow.
var portable = kernels{
	name:       "portable",
	rows:       4,
	tiles:      portableTiles(portableRow),
	tilesPairs: portableTiles(portableRowPairs),
	transpose:  portableTranspose,
	dealTile:   portableDeal(4),
	dealPanel:  portableDeal(lanes),
	dot:        portableDot,
	dot3:       portableDot3,
	max:        portableMax,
	axpy:       portableAxpy,
	add:        portableAdd,
	scale:      portableScale,
	scaleMul:   portableScaleMul,
	normDX:     portableNormDX,
	mulAdd:     portableMulAdd,
	exp:        portableExp,
	expSum:     portableExpSum,
	entropySum: portableEntropySum,
	logitGrad:  portableLogitGrad,
	swiglu:     portableSwiGLU,
	swigluGrad: portableSwiGLUGrad,
	geglu:      portableGeGLU,
	gegluGrad:  portableGeGLUGrad,
	rotate:     portableRotate,
	softGrad:   portableSoftGrad,
	adamw:      portableAdamW,
	toBF16:     portableToBF16,
	fromBF16:   portableFromBF16,
	int8:       &portableInt8,
}

// fma32 returns a*b + c rounded once to float32. The product is exact in float64; the sum is
// rounded to odd there, which makes the second rounding harmless (Boldo and Melquiond 2008).
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	lost := (p - (s - t)) + (q - t)
	if lost > 0 || lost < 0 {
		if bits := math.Float64bits(s); bits&1 == 0 {
			if (lost > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return float32(s)
}

// mul returns a*b. The compiler may not fuse it with a following sum.
func mul(a, b float32) float32 { return float32(a * b) }

// portableRowFunc adds the products of one row to its sums, over kc rows of B.
type portableRowFunc func(sum *[lanes]float32, kc int, a unsafe.Pointer, aks int, b unsafe.Pointer, bks int)

// portableTiles fills the table of tiles with closures over one loop, of the function for a row.
func portableTiles(row portableRowFunc) (tiles [maxRows + 1][4]tileFunc) {
	for rows := 1; rows <= 4; rows++ {
		tiles[rows][0] = func(groups, kc int, a unsafe.Pointer, ars, aks, ags int, b unsafe.Pointer, bks, _, _, _ int, c unsafe.Pointer, ldc, accumulate int) {
			for i := range groups * rows {
				out, sum := (*[lanes]float32)(unsafe.Add(c, i*ldc)), [lanes]float32{}
				if accumulate != 0 {
					sum = *out
				}
				row(&sum, kc, unsafe.Add(a, i/rows*ags+i%rows*ars), aks, b, bks)
				*out = sum
			}
		}
	}
	return tiles
}

func portableRow(sum *[lanes]float32, kc int, a unsafe.Pointer, aks int, b unsafe.Pointer, bks int) {
	for k := range kc {
		x := *(*float32)(unsafe.Add(a, k*aks))
		for j, w := range (*[lanes]float32)(unsafe.Add(b, k*bks)) {
			sum[j] = fma32(x, w, sum[j])
		}
	}
}

func portableRowPairs(sum *[lanes]float32, kc int, a unsafe.Pointer, aks int, b unsafe.Pointer, bks int) {
	for k := range kc {
		x, y := *(*float32)(unsafe.Add(a, 2*k*aks)), *(*float32)(unsafe.Add(a, (2*k+1)*aks))
		for j, w := range (*[lanes]uint32)(unsafe.Add(b, k*bks)) {
			sum[j] = fma32(y, math.Float32frombits(w&0xffff0000), fma32(x, math.Float32frombits(w<<16), sum[j]))
		}
	}
}

// portableTranspose writes dst[k*lanes+r] = src[r*lds+k] for r < lanes and k < n; lds in elements.
func portableTranspose(dst, src unsafe.Pointer, lds, n int) {
	out := unsafe.Slice((*float32)(dst), lanes*n)
	for r := range lanes {
		for k, v := range unsafe.Slice((*float32)(unsafe.Add(src, 4*r*lds)), n) {
			out[k*lanes+r] = v
		}
	}
}

// portableDeal returns a dealFunc for groups of size floats.
func portableDeal(size int) dealFunc {
	return func(dst, src unsafe.Pointer, lds, n, groups, stride int) {
		for k := range n {
			for g := range groups {
				to, from := unsafe.Add(dst, g*stride+4*size*k), unsafe.Add(src, k*lds+4*size*g)
				copy(unsafe.Slice((*float32)(to), size), unsafe.Slice((*float32)(from), size))
			}
		}
	}
}

// fold sums the lanes as the vector units do: 16 to 8, 4, 2, 1.
func fold(s *[lanes]float32) float32 {
	for w := lanes / 2; w > 0; w /= 2 {
		for i := range w {
			s[i] += s[i+w]
		}
	}
	return s[0]
}

func portableDot(x, y *float32, n int) float32 {
	var s [lanes]float32
	b := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		s[i%lanes] = fma32(v, b[i], s[i%lanes])
	}
	return fold(&s)
}

func portableDot3(x, y, z *float32, n int) float32 {
	var s [lanes]float32
	b, c := unsafe.Slice(y, n), unsafe.Slice(z, n)
	for i, v := range unsafe.Slice(x, n) {
		s[i%lanes] = fma32(mul(v, b[i]), c[i], s[i%lanes])
	}
	return fold(&s)
}

func portableMax(x *float32, n int) float32 {
	v := unsafe.Slice(x, n)
	m := v[0]
	for _, e := range v {
		m = max(m, e)
	}
	return m
}

func portableAxpy(y, x *float32, a float32, n int) {
	out := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = fma32(a, v, out[i])
	}
}

func portableAdd(y, x *float32, n int) {
	out := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] += v
	}
}

func portableScale(y, x *float32, a float32, n int) {
	out := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = a * v
	}
}

func portableScaleMul(y, x, w *float32, a float32, n int) {
	out, g := unsafe.Slice(y, n), unsafe.Slice(w, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = mul(v, a) * g[i]
	}
}

func portableNormDX(dx, dy, x, w *float32, rstd, c float32, n int) {
	out, in, g := unsafe.Slice(dx, n), unsafe.Slice(x, n), unsafe.Slice(w, n)
	for i, d := range unsafe.Slice(dy, n) {
		out[i] = fma32(-c, in[i], fma32(mul(d, rstd), g[i], out[i]))
	}
}

func portableMulAdd(dw, dy, x *float32, rstd float32, n int) {
	out, in := unsafe.Slice(dw, n), unsafe.Slice(x, n)
	for i, d := range unsafe.Slice(dy, n) {
		out[i] = fma32(mul(d, rstd), in[i], out[i])
	}
}

func portableRotate(x0, x1, cos, sin *float32, sign float32, n int) {
	b, c, s := unsafe.Slice(x1, n), unsafe.Slice(cos, n), unsafe.Slice(sin, n)
	a := unsafe.Slice(x0, n)
	for i, u := range a {
		v, t := b[i], mul(s[i], sign)
		a[i] = fma32(-v, t, mul(u, c[i]))
		b[i] = fma32(u, t, mul(v, c[i]))
	}
}

func portableSoftGrad(dp, p *float32, delta, scale float32, n int) {
	d := unsafe.Slice(dp, n)
	for i, v := range unsafe.Slice(p, n) {
		d[i] = mul(mul(d[i]-delta, v), scale)
	}
}

func portableAdamW(p, g, m, v *float32, c *adamConstants, n int) {
	ps, ms, vs := unsafe.Slice(p, n), unsafe.Slice(m, n), unsafe.Slice(v, n)
	for i, grad := range unsafe.Slice(g, n) {
		grad = mul(grad, c.gradScale)
		ms[i] = fma32(c.oneMinusBeta1, grad, mul(c.beta1, ms[i]))
		vs[i] = fma32(c.oneMinusBeta2, mul(grad, grad), mul(c.beta2, vs[i]))
		root := float32(math.Sqrt(float64(mul(vs[i], c.invCorrection2)))) + c.eps
		ps[i] = mul(ps[i], c.decay) - float32(mul(ms[i], c.step)/root)
	}
}

// toBF16 rounds to the nearest bf16, ties to even. A NaN stays a NaN.
func toBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if f != f {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

func fromBF16(w uint16) float32 { return math.Float32frombits(uint32(w) << 16) }

func portableToBF16(dst *uint16, src *float32, n int) {
	out := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(src, n) {
		out[i] = toBF16(v)
	}
}

func portableFromBF16(dst *float32, src *uint16, n int) {
	out := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(src, n) {
		out[i] = fromBF16(v)
	}
}
