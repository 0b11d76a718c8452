package jinja

import (
	"cmp"
	"math/big"
	"strings"
)

// compare evaluates one comparison operator, including in and not in.
func (r *runtime) compare(op string, a, b Value) bool {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		return !r.equal(a, b, 0)
	case "<":
		return r.lessThan(a, b, 0)
	case ">":
		return r.lessThan(b, a, 0)
	case "<=":
		return r.lessThan(a, b, 0) || r.equal(a, b, 0)
	case ">=":
		return r.lessThan(b, a, 0) || r.equal(b, a, 0)
	case "in":
		return r.contains(b, a)
	}
	return !r.contains(b, a)
}

// numeric returns a number as an exact value; booleans are numbers.
func numeric(v Value) (i *big.Int, f float64, isFloat, ok bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return big.NewInt(1), 0, false, true
		}
		return new(big.Int), 0, false, true
	case int64:
		return big.NewInt(x), 0, false, true
	case *big.Int:
		return x, 0, false, true
	case float64:
		return nil, x, true, true
	}
	return nil, 0, false, false
}

// order compares two numbers exactly: -1, 0, 1, or 2 if one of them is NaN. ok is false if a or b
// is not a number.
func order(a, b Value) (c int, ok bool) {
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return cmp.Compare(x, y), true
		}
	}
	ai, af, aFloat, ok := numeric(a)
	if !ok {
		return 0, false
	}
	bi, bf, bFloat, ok := numeric(b)
	if !ok {
		return 0, false
	}
	if af != af || bf != bf {
		return 2, true
	}
	x, y := exact(ai, af, aFloat), exact(bi, bf, bFloat)
	return x.Cmp(y), true
}

func exact(i *big.Int, f float64, isFloat bool) *big.Float {
	if isFloat {
		return big.NewFloat(f)
	}
	return new(big.Float).SetInt(i)
}

// textOf returns the text of a string, marked or not.
func textOf(v Value) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case markup:
		return string(s), true
	}
	return "", false
}

// equal is Python's ==.
func (r *runtime) equal(a, b Value, depth int) bool {
	if depth > maxValueDepth {
		panic(tooDeep())
	}
	r.spend(0)
	if c, ok := order(a, b); ok {
		return c == 0
	}
	if x, ok := textOf(a); ok {
		y, ok := textOf(b)
		r.spend(min(len(x), len(y)) / 64)
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case *List:
		if y, ok := b.(*List); ok {
			return len(x.Items) == len(y.Items) && r.agree(x.Items, y.Items, depth) == len(x.Items)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return len(x.Items) == len(y.Items) && r.agree(x.Items, y.Items, depth) == len(x.Items)
		}
	case *Map:
		if y, ok := b.(*Map); ok {
			return r.equalMaps(x, y, depth)
		}
	case *interval:
		if y, ok := b.(*interval); ok {
			n := x.length()
			return n == y.length() && (n == 0 || x.start == y.start && (n == 1 || x.step == y.step))
		}
	case *view:
		if _, ok := b.(*view); ok {
			panic(failf(Unsupported, "comparing the keys, values or items of mappings"))
		}
	case *namespace, *macro, *loop, *iterator:
		return a == b
	case *function:
		if y, ok := b.(*function); ok && x != y {
			panic(failf(Unsupported, "comparing functions"))
		}
		return a == b
	}
	return false
}

// agree returns the number of items with which two sequences begin alike.
func (r *runtime) agree(a, b []Value, depth int) int {
	n := 0
	for n < min(len(a), len(b)) && r.equal(a[n], b[n], depth+1) {
		n++
	}
	return n
}

func (r *runtime) equalMaps(a, b *Map, depth int) bool {
	if a.Len() != b.Len() {
		return false
	}
	for i, k := range a.keys {
		r.key(k)
		if other, ok := b.lookup(k); !ok || !r.equal(a.vals[i], other, depth+1) {
			return false
		}
	}
	return true
}

// lessThan is Python's <.
func (r *runtime) lessThan(a, b Value, depth int) bool {
	if depth > maxValueDepth {
		panic(tooDeep())
	}
	r.spend(0)
	if c, ok := order(a, b); ok {
		return c == -1
	}
	if x, ok := textOf(a); ok {
		if y, ok := textOf(b); ok {
			r.spend(min(len(x), len(y)) / 64)
			return x < y
		}
	}
	switch x := a.(type) {
	case *undefined:
		panic(x.fail())
	case *List:
		if y, ok := b.(*List); ok {
			return r.lessItems(x.Items, y.Items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return r.lessItems(x.Items, y.Items, depth)
		}
	}
	if u, ok := b.(*undefined); ok {
		panic(u.fail())
	}
	panic(typeErrorf("'<' not supported between instances of '%s' and '%s'", typeName(a), typeName(b)))
}

func (r *runtime) lessItems(a, b []Value, depth int) bool {
	if i := r.agree(a, b, depth); i < min(len(a), len(b)) {
		return r.lessThan(a[i], b[i], depth+1)
	}
	return len(a) < len(b)
}

// contains is Python's "v in container".
func (r *runtime) contains(container, v Value) bool {
	if s, ok := textOf(container); ok {
		sub, ok := textOf(v)
		if !ok {
			panic(typeErrorf("'in <string>' requires string as left operand, not %s", typeName(v)))
		}
		r.spend(len(s) / 64)
		return strings.Contains(s, sub)
	}
	switch c := container.(type) {
	case *Map:
		r.key(v)
		_, ok := c.lookup(v)
		return ok
	case *view:
		if c.kind == "keys" {
			r.key(v)
			_, ok := c.of.lookup(v)
			return ok
		}
	case *namespace:
		panic(typeErrorf("argument of type 'Namespace' is not iterable"))
	}
	for item := range r.iterate(container).all {
		if r.equal(item, v, 0) {
			return true
		}
	}
	return false
}
