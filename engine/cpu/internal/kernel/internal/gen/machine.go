package main

import "math"

// vec is a vector register.
type vec int

// machine emits the operations that row and vector kernels are made of, one vector register at a
// time. Where an operand is not a number, maximum and minimum return their last operand on x86 and
// NaN on arm.
type machine interface {
	width() int         // floats of a register
	constantLanes() int // floats that a constant fills in memory
	hoist(f *function, h hoist) string

	pointerArg(f *function, i int, name string)  // into pointer register i
	countArg(f *function, name string)           // n/16 into the loop counter
	floatArg(f *function, v vec, name string)    // into every lane
	floatField(f *function, v vec, ptr, off int) // element at byte off of pointer register ptr into every lane
	loop(f *function, label string)
	next(f *function, label string, pointers int) // advances the pointers by 16 floats and loops

	load(f *function, v vec, ptr, off int)
	store(f *function, v vec, ptr, off int)
	zero(f *function, v vec)
	move(f *function, d, a vec)
	add(f *function, d, a, b vec)
	sub(f *function, d, a, b vec)
	mul(f *function, d, a, b vec)
	div(f *function, d, a, b vec)
	maximum(f *function, d, a, b vec)
	minimum(f *function, d, a, b vec)
	sqrt(f *function, d, a vec)
	fma(f *function, sum, a, b vec)  // sum += a·b
	fnma(f *function, sum, a, b vec) // sum -= a·b

	constant(f *function, d vec, c constant)
	addConstant(f *function, d, a vec, c constant)
	mulConstant(f *function, d, a vec, c constant)
	fnmaConstant(f *function, sum, a vec, c constant)
	horner(f *function, t, x vec, c constant, scratch vec)    // t = t·x + c
	round(f *function, d, a vec)                              // to the nearest integer, ties to even
	addExponent(f *function, d, n vec)                        // d·2ⁿ by the exponent bits; n is lost
	zeroBelow(f *function, d, x vec, c constant, scratch vec) // 0 where x < c
	fold(f *function, op string, sums []vec, scratch vec)     // 16 lanes to one, "add" or "max"
	result(f *function, v vec)                                // lane 0 is the function's result
	storeLane(f *function, v vec, ptr, off int)               // lane 0 to memory
	end(f *function)
}

func float(name string, v float32) constant { return constant{name, math.Float32bits(v)} }

var (
	one      = float("one", 1)
	expMin   = float("expMin", -87.3)
	expMax   = float("expMax", 88.72)
	logFloor = float("logFloor", -100)
	log2e    = float("log2e", 1.44269504)
	ln2High  = float("ln2High", 0.693359375)
	ln2Low   = float("ln2Low", -2.12194440e-4)
	// see package kernel
	geluSlope = float("geluSlope", 1.5957691216)
	geluCube  = float("geluCube", 0.0713548163)
	expC      = []constant{
		float("expC0", 1.9875691500e-4), float("expC1", 1.3981999507e-3), float("expC2", 8.3334519073e-3),
		float("expC3", 4.1665795894e-2), float("expC4", 1.6666665459e-1), float("expC5", 5.0000001201e-1), one, one,
	}
)

// exp emits x = eˣ as package kernel's portable expf does it; p, n and t are lost.
func exp(f *function, x, p, n, t vec) {
	m := f.set.m
	// The mask of what is below comes last, so the argument is kept in t until then.
	m.move(f, t, x)
	m.constant(f, n, expMax)
	m.minimum(f, x, n, x)
	m.mulConstant(f, n, x, log2e)
	m.round(f, n, n)
	m.fnmaConstant(f, x, n, ln2High)
	m.fnmaConstant(f, x, n, ln2Low)
	m.constant(f, p, expC[0])
	for _, c := range expC[1:] {
		m.horner(f, p, x, c, scratchOf(m))
	}
	m.addExponent(f, p, n)
	m.move(f, x, p)
	m.zeroBelow(f, x, t, expMin, n)
}

// scratchOf is a register that no kernel uses otherwise.
func scratchOf(m machine) vec {
	if m.width() == 4 {
		return 17
	}
	return 15
}
