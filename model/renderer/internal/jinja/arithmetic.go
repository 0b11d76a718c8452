package jinja

import (
	"math"
	"math/bits"
	"slices"
	"strings"
)

// binary evaluates an arithmetic operator.
func (r *runtime) binary(op string, a, b Value) Value {
	if s, ok := a.(string); ok && op == "%" {
		return printf(r, s, b)
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(*undefined); ok {
			panic(u.fail())
		}
	}
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return intOp(op, x, y)
		}
	}
	if x, ok := float(a); ok {
		if y, ok := float(b); ok {
			return floatOp(op, x, y)
		}
	}
	switch op {
	case "+":
		return r.add(a, b)
	case "*":
		if n, ok := integer(b); ok {
			return r.repeat(a, n)
		}
		if n, ok := integer(a); ok {
			return r.repeat(b, n)
		}
	}
	if _, marked := a.(markup); marked {
		panic(failf(Unsupported, "the operator %s on text marked safe", op))
	}
	panic(typeErrorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b)))
}

// integer returns an integer or boolean as a number.
func integer(v Value) (int64, bool) {
	switch x := v.(type) {
	case int64:
		return x, true
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

func float(v Value) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	n, ok := integer(v)
	return float64(n), ok
}

func overflow() error { return failf(Unsupported, "an integer beyond 64 bits in arithmetic") }

func divisionByZero() error { return typeErrorf("division by zero") }

func intOp(op string, x, y int64) Value {
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return s
		}
		panic(overflow())
	case "-":
		if d := x - y; (d < x) == (y > 0) {
			return d
		}
		panic(overflow())
	case "*":
		return multiply(x, y)
	case "**":
		return power(x, y)
	}
	if y == 0 {
		panic(divisionByZero())
	}
	if x == math.MinInt64 && y == -1 {
		panic(overflow())
	}
	switch op {
	case "//":
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return q
	case "%":
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	if abs(x) > 1<<53 || abs(y) > 1<<53 {
		panic(overflow()) // the quotient of the rounded operands may differ from Python's
	}
	return float64(x) / float64(y)
}

func abs(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func multiply(x, y int64) int64 {
	high, low := bits.Mul64(abs(x), abs(y))
	if high != 0 || low > math.MaxInt64 {
		panic(overflow())
	}
	return x * y
}

func power(x, y int64) Value {
	if y < 0 {
		if x == 0 {
			panic(typeErrorf("0.0 cannot be raised to a negative power"))
		}
		return math.Pow(float64(x), float64(y))
	}
	if abs(x) <= 1 { // any exponent, however large
		if y > 0 {
			y = 2 - y%2
		}
	}
	result := int64(1)
	for ; y > 0; y-- {
		result = multiply(result, x)
	}
	return result
}

func floatOp(op string, x, y float64) Value {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		if x == 0 && y < 0 {
			panic(typeErrorf("0.0 cannot be raised to a negative power"))
		}
		p := math.Pow(x, y)
		if math.IsInf(p, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			panic(typeErrorf("the result of ** is too large"))
		}
		if math.IsNaN(p) && x < 0 {
			panic(failf(Unsupported, "complex numbers"))
		}
		return p
	}
	if y == 0 {
		panic(divisionByZero())
	}
	mod := math.Mod(x, y)
	switch op {
	case "/":
		return x / y
	case "%":
		if mod == 0 {
			return math.Copysign(0, y)
		}
		if (mod < 0) != (y < 0) {
			mod += y
		}
		return mod
	}
	return floorDivide(x, y, mod)
}

// floorDivide follows Python's float //, which starts from the exact remainder.
func floorDivide(x, y, mod float64) float64 {
	div := (x - mod) / y
	if mod != 0 && (mod < 0) != (y < 0) {
		div--
	}
	if div == 0 {
		return math.Copysign(0, x/y)
	}
	whole := math.Floor(div)
	if div-whole > 0.5 {
		whole++
	}
	return whole
}

func unaryOp(op string, v Value) Value {
	switch x := v.(type) {
	case *undefined:
		panic(x.fail())
	case float64:
		if op == "-" {
			return -x
		}
		return x
	}
	n, ok := integer(v)
	if !ok {
		panic(typeErrorf("bad operand type for unary %s: '%s'", op, typeName(v)))
	}
	if op == "-" {
		return intOp("-", 0, n)
	}
	return n
}

// add concatenates two texts, lists or tuples.
func (r *runtime) add(a, b Value) Value {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			r.room(len(x) + len(y))
			return x + y
		case markup:
			r.room(len(x)*5 + len(y))
			return markup(escapeHTML(x)) + y
		}
	case markup:
		switch y := b.(type) {
		case string:
			r.room(len(x) + len(y)*5)
			return x + markup(escapeHTML(y))
		case markup:
			r.room(len(x) + len(y))
			return x + y
		}
	case *List:
		if y, ok := b.(*List); ok {
			r.room(16 * (len(x.Items) + len(y.Items)))
			return &List{slices.Concat(x.Items, y.Items)}
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			r.room(16 * (len(x.Items) + len(y.Items)))
			return &Tuple{slices.Concat(x.Items, y.Items)}
		}
	}
	panic(typeErrorf("unsupported operand type(s) for +: '%s' and '%s'", typeName(a), typeName(b)))
}

// repeat returns the items of v n times over, as Python's v * n does.
func (r *runtime) repeat(v Value, n int64) Value {
	n = max(n, 0)
	size := func(length, unit int) int {
		if length > 0 && n > int64(r.limits.Size/(length*unit)) {
			panic(tooLarge(r.limits.Size))
		}
		if length == 0 {
			return 0
		}
		r.room(int(n) * length * unit)
		return int(n)
	}
	switch x := v.(type) {
	case string:
		count := size(len(x), 1)
		return strings.Repeat(x, count)
	case *List:
		return &List{repeatItems(x.Items, size)}
	case *Tuple:
		return &Tuple{repeatItems(x.Items, size)}
	case markup:
		panic(failf(Unsupported, "the operator * on text marked safe"))
	}
	panic(typeErrorf("can't multiply sequence by non-int of type '%s'", typeName(v)))
}

func repeatItems(items []Value, size func(length, unit int) int) []Value {
	count := size(len(items), 16)
	return slices.Repeat(items, count)
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscapes.Replace(s) }
