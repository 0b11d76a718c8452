package tape

import (
	"fmt"
	"math"
)

// unary applies f, which returns the value and its derivative by x.
func (s Stream) unary(f func(x float64) (y, slope float64)) Stream {
	in := s.node()
	out := s.tape.add(node{kind: elementwise, shape: in.shape, a: s.id, b: -1}, len(in.value))
	n := out.node()
	if n.varies {
		n.da = s.tape.memory.take(len(n.value))
	}
	for i, x := range s.Value() {
		y, slope := f(x)
		n.value[i] = y
		if n.varies {
			n.da[i] = slope
		}
	}
	return out
}

// binary applies f, which returns the value and its derivatives by x and by y.
func (s Stream) binary(o Stream, f func(i int, x, y float64) (z, dx, dy float64)) Stream {
	s.mustMatch(o)
	out := s.tape.add(node{kind: elementwise, shape: s.node().shape, a: s.id, b: o.id}, len(s.Value()))
	n := out.node()
	if n.varies {
		n.da, n.db = s.tape.memory.take(len(n.value)), s.tape.memory.take(len(n.value))
	}
	x, y := s.Value(), o.Value()
	for i := range n.value {
		z, dx, dy := f(i, x[i], y[i])
		n.value[i] = z
		if n.varies {
			n.da[i], n.db[i] = dx, dy
		}
	}
	return out
}

func (s Stream) mustMatch(o Stream) {
	if s.tape != o.tape {
		panic("tape: streams of two tapes")
	}
	if a, b := s.node(), o.node(); a.shape != b.shape || len(a.value) != len(b.value) {
		panic(fmt.Sprintf("tape: a %s stream [%d] meets a %s stream [%d]", a.shape, len(a.value), b.shape, len(b.value)))
	}
}

// Add returns s + o.
func (s Stream) Add(o Stream) Stream {
	return s.binary(o, func(_ int, x, y float64) (z, dx, dy float64) { return x + y, 1, 1 })
}

// Sub returns s − o.
func (s Stream) Sub(o Stream) Stream {
	return s.binary(o, func(_ int, x, y float64) (z, dx, dy float64) { return x - y, 1, -1 })
}

// Mul returns s·o.
func (s Stream) Mul(o Stream) Stream {
	return s.binary(o, func(_ int, x, y float64) (z, dx, dy float64) { return x * y, y, x })
}

// Div returns s/o.
func (s Stream) Div(o Stream) Stream {
	return s.binary(o, func(_ int, x, y float64) (z, dx, dy float64) { return x / y, 1 / y, -x / (y * y) })
}

// Min returns the smaller of s and o. At a tie each gets half of the gradient.
func (s Stream) Min(o Stream) Stream { return s.Neg().Max(o.Neg()).Neg() }

// Max returns the larger of s and o. At a tie each gets half of the gradient.
func (s Stream) Max(o Stream) Stream {
	return s.binary(o, func(_ int, x, y float64) (z, dx, dy float64) {
		switch {
		case x > y:
			return x, 1, 0
		case x < y:
			return y, 0, 1
		}
		return x, 0.5, 0.5
	})
}

// Where returns s where mask is true and o elsewhere. mask has one entry per number of s.
func (s Stream) Where(mask []bool, o Stream) Stream {
	if len(mask) != len(s.Value()) {
		panic(fmt.Sprintf("tape: mask [%d] over a stream [%d]", len(mask), len(s.Value())))
	}
	return s.binary(o, func(i int, x, y float64) (z, dx, dy float64) {
		if mask[i] {
			return x, 1, 0
		}
		return y, 0, 1
	})
}

// Neg returns −s.
func (s Stream) Neg() Stream { return s.Scale(-1) }

// Scale returns c·s.
func (s Stream) Scale(c float64) Stream {
	return s.unary(func(x float64) (y, slope float64) { return c * x, c })
}

// Plus returns s + c.
func (s Stream) Plus(c float64) Stream {
	return s.unary(func(x float64) (y, slope float64) { return x + c, 1 })
}

// Exp returns eˢ.
func (s Stream) Exp() Stream {
	return s.unary(func(x float64) (y, slope float64) { e := math.Exp(x); return e, e })
}

// Log returns the natural logarithm of s.
func (s Stream) Log() Stream {
	return s.unary(func(x float64) (y, slope float64) { return math.Log(x), 1 / x })
}

// Square returns s².
func (s Stream) Square() Stream {
	return s.unary(func(x float64) (y, slope float64) { return x * x, 2 * x })
}

// Abs returns |s|. Its derivative at 0 is 0.
func (s Stream) Abs() Stream {
	return s.unary(func(x float64) (y, slope float64) {
		switch {
		case x > 0:
			return x, 1
		case x < 0:
			return -x, -1
		}
		return 0, 0
	})
}

// Clamp limits s to [lo, hi]. Its derivative is 1 inside and on the bounds, and 0 outside.
func (s Stream) Clamp(lo, hi float64) Stream {
	return s.unary(func(x float64) (y, slope float64) {
		switch {
		case x < lo:
			return lo, 0
		case x > hi:
			return hi, 0
		}
		return x, 1
	})
}

// Sigmoid returns 1/(1 + e⁻ˢ).
func (s Stream) Sigmoid() Stream {
	return s.unary(func(x float64) (y, slope float64) { p := sigmoid(x); return p, p * sigmoid(-x) })
}

// LogSigmoid returns log(sigmoid(s)) without overflow for large |s|.
func (s Stream) LogSigmoid() Stream {
	return s.unary(func(x float64) (y, slope float64) {
		return math.Min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))), sigmoid(-x)
	})
}

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}
