package kernel

import (
	"math"
	"unsafe"
)

// The exponential is Cephes' expf: x = n ln 2 + r with |r| ≤ ln 2 / 2, a polynomial in r, and n
// added to the exponent. The largest relative error is 8e-8. Below expMin the result is 0, above
// expMax it stays at exp(expMax).
const (
	expMin  = -87.3
	expMax  = 88.72
	log2e   = 1.44269504
	ln2High = 0.693359375
	ln2Low  = -2.12194440e-4
	expC0   = 1.9875691500e-4
	expC1   = 1.3981999507e-3
	expC2   = 8.3334519073e-3
	expC3   = 4.1665795894e-2
	expC4   = 1.6666665459e-1
	expC5   = 5.0000001201e-1
	// logFloor bounds a log probability where it multiplies a probability that is 0, so that -Inf
	// gives 0 and not NaN.
	logFloor = -100
)

func expf(x float32) float32 {
	if x < expMin {
		return 0
	}
	x = min(x, expMax)
	n := float32(math.RoundToEven(float64(mul(x, log2e))))
	r := fma32(-n, ln2High, x)
	r = fma32(-n, ln2Low, r)
	p := fma32(expC0, r, expC1)
	p = fma32(p, r, expC2)
	p = fma32(p, r, expC3)
	p = fma32(p, r, expC4)
	p = fma32(p, r, expC5)
	p = fma32(p, r, 1)
	p = fma32(p, r, 1)
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

func portableExp(y, x *float32, n int) {
	out := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = expf(v)
	}
}

// portableExpSum writes y = exp(x - m) and returns the sum.
func portableExpSum(y, x *float32, m float32, n int) float32 {
	var s [lanes]float32
	out := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		out[i] = expf(v - m)
		s[i%lanes] += out[i]
	}
	return fold(&s)
}

// portableEntropySum sums e = exp(x - m) and e·(x - m).
func portableEntropySum(x *float32, m float32, sums *[2]float32, n int) {
	var s, t [lanes]float32
	for i, v := range unsafe.Slice(x, n) {
		d := v - m
		e := expf(d)
		s[i%lanes] += e
		t[i%lanes] = fma32(e, max(d, logFloor), t[i%lanes])
	}
	sums[0], sums[1] = fold(&s), fold(&t)
}

// portableLogitGrad replaces x by p·(a + b·log p), p = exp(x - lse).
func portableLogitGrad(x *float32, lse, a, b float32, n int) {
	v := unsafe.Slice(x, n)
	for i := range v {
		d := v[i] - lse
		v[i] = mul(expf(d), fma32(b, max(d, logFloor), a))
	}
}

func portableSwiGLU(y, gate, up *float32, n int) {
	out, u := unsafe.Slice(y, n), unsafe.Slice(up, n)
	for i, g := range unsafe.Slice(gate, n) {
		out[i] = mul(float32(g/(1+expf(-g))), u[i])
	}
}

func portableSwiGLUGrad(dgate, dup, dy, gate, up *float32, n int) {
	dg, du, d, u := unsafe.Slice(dgate, n), unsafe.Slice(dup, n), unsafe.Slice(dy, n), unsafe.Slice(up, n)
	for i, g := range unsafe.Slice(gate, n) {
		s := 1 / (1 + expf(-g))
		gs := mul(g, s)
		dyi, ui := d[i], u[i]
		dg[i] = mul(mul(dyi, ui), fma32(-s, gs, gs)+s)
		du[i] = mul(dyi, gs)
	}
}

// The tanh approximation of GELU is x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))) (Hendrycks and Gimpel 2016), which is x·σ(t)
// with t = x·(geluSlope + geluCube·x²).
const (
	geluSlope = 1.5957691216 // 2·√(2/π)
	geluCube  = 0.0713548163 // geluSlope·0.044715
)

func geluArgument(x float32) float32 { return mul(fma32(geluCube, mul(x, x), geluSlope), x) }

func portableGeGLU(y, gate, up *float32, n int) {
	out, u := unsafe.Slice(y, n), unsafe.Slice(up, n)
	for i, g := range unsafe.Slice(gate, n) {
		out[i] = mul(float32(g/(1+expf(-geluArgument(g)))), u[i])
	}
}

func portableGeGLUGrad(dgate, dup, dy, gate, up *float32, n int) {
	dg, du, d, u := unsafe.Slice(dgate, n), unsafe.Slice(dup, n), unsafe.Slice(dy, n), unsafe.Slice(up, n)
	for i, g := range unsafe.Slice(gate, n) {
		s := 1 / (1 + expf(-geluArgument(g)))
		gs, cube := mul(g, s), mul(mul(g, g), geluCube)
		slope := fma32(geluCube, mul(g, g), geluSlope) + cube + cube
		dyi, ui := d[i], u[i]
		dg[i] = mul(mul(dyi, ui), fma32(fma32(-s, gs, gs), slope, s))
		du[i] = mul(dyi, gs)
	}
}
