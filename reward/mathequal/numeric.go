package mathequal

import (
	"math"
	"math/cmplx"
)

// epsilon is the assumed relative rounding error of one operation: a few units in the last place.
const epsilon = 1e-15

// approx is a complex number and a bound of its error.
type approx struct {
	v   complex128
	err float64
}

// sound reports whether the number is meaningful: it is finite, did not underflow, and has a small
// enough error.
func (a approx) sound() bool {
	return !cmplx.IsNaN(a.v) && !cmplx.IsInf(a.v) && a.err <= 1e-9*(1+cmplx.Abs(a.v)) && cmplx.Abs(a.v) < 1e200
}

func (a approx) agrees(b approx) bool { return cmplx.Abs(a.v-b.v) <= 4*(a.err+b.err) }

var unknown = approx{v: cmplx.NaN()}

// rounded adds the rounding error of one operation. A product that underflowed to 0, although no
// factor is 0, is unknown.
func rounded(v complex128, err float64) approx {
	if math.Abs(imag(v)) <= err { // keeps real numbers off the wrong side of a branch cut
		v = complex(real(v), 0)
	}
	return approx{v, err + epsilon*cmplx.Abs(v)}
}

// at evaluates n with the variables of one place, and notes if a value on the way is not real.
func (c *comparer) at(n *node, p *place) approx {
	a := c.evaluate(n, p)
	if imag(a.v) != 0 {
		c.unreal = true
	}
	return a
}

func (c *comparer) evaluate(n *node, p *place) approx {
	if !c.spend(1) {
		return unknown
	}
	switch n.op {
	case opNumber:
		f, _ := n.num.Float64()
		if f == 0 && n.num.Sign() != 0 {
			return unknown
		}
		return rounded(complex(f, 0), 0)
	case opSymbol:
		return c.variableAt(n.text, p)
	case opNeg:
		a := c.at(n.args[0], p)
		return rounded(0-a.v, a.err)
	case opPercent:
		return product(c.at(n.args[0], p), rounded(0.01, 0))
	case opDegree:
		return product(c.at(n.args[0], p), rounded(math.Pi/180, 0))
	case opAdd, opSub, opMul, opDiv, opPow:
		return binary(n.op, c.at(n.args[0], p), c.at(n.args[1], p))
	case opFactorial, opCall:
		if r, ok := c.exact(n); ok {
			f, _ := r.Float64()
			if f == 0 && r.Sign() != 0 {
				return unknown
			}
			return rounded(complex(f, 0), 0)
		}
		if n.op == opCall {
			return c.callAt(n, p)
		}
	}
	return unknown
}

func binary(op operation, a, b approx) approx {
	switch op {
	case opAdd:
		return rounded(a.v+b.v, a.err+b.err)
	case opSub:
		return rounded(a.v-b.v, a.err+b.err)
	case opMul:
		return product(a, b)
	case opDiv:
		size := cmplx.Abs(b.v)
		if size <= 2*b.err {
			return unknown
		}
		v := a.v / b.v
		if v == 0 && a.v != 0 {
			return unknown
		}
		return rounded(v, (a.err+cmplx.Abs(v)*b.err)/(size-b.err))
	}
	return power(a, b)
}

func product(a, b approx) approx {
	v := a.v * b.v
	if v == 0 && a.v != 0 && b.v != 0 {
		return unknown
	}
	return rounded(v, cmplx.Abs(a.v)*b.err+cmplx.Abs(b.v)*a.err)
}

// power returns the principal value of a^b.
func power(a, b approx) approx {
	size := cmplx.Abs(a.v)
	if size <= 2*a.err {
		if a.v == 0 && real(b.v) > 0 {
			return approx{}
		}
		return unknown
	}
	v := cmplx.Pow(a.v, b.v)
	if v == 0 {
		return unknown
	}
	log := cmplx.Abs(cmplx.Log(a.v))
	relative := cmplx.Abs(b.v)*a.err/size + log*b.err + epsilon*(1+cmplx.Abs(b.v)*log)
	return rounded(v, relative*cmplx.Abs(v))
}
