package mathequal

import (
	"math"
	"math/cmplx"
)

var analytic = map[string]func(complex128) complex128{
	"sin": cmplx.Sin, "cos": cmplx.Cos, "tan": cmplx.Tan, "cot": cmplx.Cot,
	"sec":    func(x complex128) complex128 { return 1 / cmplx.Cos(x) },
	"csc":    func(x complex128) complex128 { return 1 / cmplx.Sin(x) },
	"arcsin": cmplx.Asin, "arccos": cmplx.Acos, "arctan": cmplx.Atan, "sinh": cmplx.Sinh, "cosh": cmplx.Cosh, "tanh": cmplx.Tanh,
	"ln": cmplx.Log, "log": cmplx.Log, "lg": cmplx.Log10, "exp": cmplx.Exp,
	"abs": func(x complex128) complex128 { return complex(cmplx.Abs(x), 0) },
}

// callAt evaluates a function. The error of the result is the change of the function over the error
// of the argument.
func (c *comparer) callAt(n *node, p *place) approx {
	a := c.at(n.args[0], p)
	switch n.text {
	case "root":
		return root(a, c.at(n.args[1], p))
	case "floor", "ceil":
		return step(n.text, a)
	case "exp":
		if real(a.v) < -700 {
			return unknown
		}
	}
	f, ok := analytic[n.text]
	if !ok || !a.sound() {
		return unknown
	}
	v, h := f(a.v), complex(a.err+epsilon*cmplx.Abs(a.v), 0)
	return rounded(v, max(cmplx.Abs(f(a.v+h)-v), cmplx.Abs(f(a.v-h)-v)))
}

// root returns the real root of a real number if there is one, else the principal root.
func root(a, degree approx) approx {
	k := real(degree.v)
	if real(a.v) == 0 && imag(a.v) == 0 && k > 0 {
		return approx{err: math.Sqrt(a.err)}
	}
	odd := imag(degree.v) == 0 && k == math.Trunc(k) && math.Mod(k, 2) != 0
	if odd && imag(a.v) == 0 && real(a.v) < 0 {
		r := power(approx{-a.v, a.err}, binary(opDiv, approx{v: 1}, degree))
		return approx{-r.v, r.err}
	}
	return power(a, binary(opDiv, approx{v: 1}, degree))
}

// step evaluates floor or ceil. It treats a number that may be an integer as one.
func step(function string, a approx) approx {
	if !a.sound() || imag(a.v) != 0 {
		return unknown
	}
	x := real(a.v)
	if nearest := math.Round(x); math.Abs(x-nearest) <= 4*a.err {
		return approx{v: complex(nearest, 0)}
	}
	if function == "floor" {
		return approx{v: complex(math.Floor(x), 0)}
	}
	return approx{v: complex(math.Ceil(x), 0)}
}
