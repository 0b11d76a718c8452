package jinja

import (
	"math"
	"math/bits"
	"strings"
)

// binary evaluates an arithmetic operator.
func (r *runtime) binary(op string, a, b Value) (Value, error) {
	if s, ok := a.(string); ok && op == "%" {
		return printf(r, s, b)
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(*undefined); ok {
			return nil, u.fail()
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
		return nil, failf(Unsupported, "the operator %s on text marked safe", op)
	}
	return nil, typeErrorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
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

func intOp(op string, x, y int64) (Value, error) {
	switch op {
	case "+":
		if s := x + y; (s > x) == (y > 0) {
			return s, nil
		}
		return nil, overflow()
	case "-":
		if d := x - y; (d < x) == (y > 0) {
			return d, nil
		}
		return nil, overflow()
	case "*":
		return multiply(x, y)
	case "**":
		return power(x, y)
	}
	if y == 0 {
		return nil, divisionByZero()
	}
	if x == math.MinInt64 && y == -1 {
		return nil, overflow()
	}
	switch op {
	case "//":
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return q, nil
	case "%":
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, nil
	}
	if abs(x) > 1<<53 || abs(y) > 1<<53 {
		return nil, overflow() // the quotient of the rounded operands may differ from Python's
	}
	return float64(x) / float64(y), nil
}

func abs(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

func multiply(x, y int64) (Value, error) {
	high, low := bits.Mul64(abs(x), abs(y))
	if high != 0 || low > math.MaxInt64 {
		return int64(0), overflow()
	}
	return x * y, nil
}

func power(x, y int64) (Value, error) {
	if y < 0 {
		if x == 0 {
			return nil, typeErrorf("0.0 cannot be raised to a negative power")
		}
		return math.Pow(float64(x), float64(y)), nil
	}
	if abs(x) <= 1 { // any exponent, however large
		if y > 0 {
			y = 2 - y%2
		}
	}
	var result Value = int64(1)
	var err error
	for ; y > 0 && err == nil; y-- {
		result, err = multiply(result.(int64), x)
	}
	return result, err
}

func floatOp(op string, x, y float64) (Value, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "**":
		if x == 0 && y < 0 {
			return nil, typeErrorf("0.0 cannot be raised to a negative power")
		}
		p := math.Pow(x, y)
		if math.IsInf(p, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			return nil, typeErrorf("the result of ** is too large")
		}
		if math.IsNaN(p) && x < 0 {
			return nil, failf(Unsupported, "complex numbers")
		}
		return p, nil
	}
	if y == 0 {
		return nil, divisionByZero()
	}
	mod := math.Mod(x, y)
	switch op {
	case "/":
		return x / y, nil
	case "%":
		if mod == 0 {
			return math.Copysign(0, y), nil
		}
		if (mod < 0) != (y < 0) {
			mod += y
		}
		return mod, nil
	}
	return floorDivide(x, y, mod), nil
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

func unaryOp(op string, v Value) (Value, error) {
	switch x := v.(type) {
	case *undefined:
		return nil, x.fail()
	case float64:
		if op == "-" {
			return -x, nil
		}
		return x, nil
	}
	n, ok := integer(v)
	if !ok {
		return nil, typeErrorf("bad operand type for unary %s: '%s'", op, typeName(v))
	}
	if op == "-" {
		return intOp("-", 0, n)
	}
	return n, nil
}

// add concatenates two texts, lists or tuples.
func (r *runtime) add(a, b Value) (Value, error) {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			return x + y, r.room(len(x) + len(y))
		case markup:
			return markup(escapeHTML(x)) + y, r.room(len(x)*5 + len(y))
		}
	case markup:
		switch y := b.(type) {
		case string:
			return x + markup(escapeHTML(y)), r.room(len(x) + len(y)*5)
		case markup:
			return x + y, r.room(len(x) + len(y))
		}
	case *List:
		if y, ok := b.(*List); ok {
			items, err := r.join2(x.Items, y.Items)
			return &List{items}, err
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			items, err := r.join2(x.Items, y.Items)
			return &Tuple{items}, err
		}
	}
	return nil, typeErrorf("unsupported operand type(s) for +: '%s' and '%s'", typeName(a), typeName(b))
}

func (r *runtime) join2(a, b []Value) ([]Value, error) {
	if err := r.room(16 * (len(a) + len(b))); err != nil {
		return nil, err
	}
	return append(append(make([]Value, 0, len(a)+len(b)), a...), b...), nil
}

// repeat returns the items of v n times over, as Python's v * n does.
func (r *runtime) repeat(v Value, n int64) (Value, error) {
	n = max(n, 0)
	size := func(length, unit int) (int, error) {
		if length > 0 && n > int64(r.limits.Size/(length*unit)) {
			return 0, tooLarge(r.limits.Size)
		}
		if length == 0 {
			return 0, nil
		}
		return int(n), r.room(int(n) * length * unit)
	}
	switch x := v.(type) {
	case string:
		count, err := size(len(x), 1)
		if err != nil {
			return nil, err
		}
		return strings.Repeat(x, count), nil
	case *List:
		items, err := repeatItems(x.Items, size)
		return &List{items}, err
	case *Tuple:
		items, err := repeatItems(x.Items, size)
		return &Tuple{items}, err
	case markup:
		return nil, failf(Unsupported, "the operator * on text marked safe")
	}
	return nil, typeErrorf("can't multiply sequence by non-int of type '%s'", typeName(v))
}

func repeatItems(items []Value, size func(length, unit int) (int, error)) ([]Value, error) {
	count, err := size(len(items), 16)
	if err != nil {
		return nil, err
	}
	var out []Value
	for range count {
		out = append(out, items...)
	}
	return out, nil
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscapes.Replace(s) }
