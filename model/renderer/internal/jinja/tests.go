package jinja

import "math/big"

// tests holds the tests that may follow "is".
var tests map[string]func(r *runtime, v Value, args []Value) bool

// testArity is the number of arguments of the tests that take any.
var testArity = map[string]int{
	"divisibleby": 1, "sameas": 1, "in": 1, "==": 1, "eq": 1, "equalto": 1, "!=": 1, "ne": 1, ">": 1, "gt": 1,
	"greaterthan": 1, "ge": 1, ">=": 1, "<": 1, "lt": 1, "lessthan": 1, "<=": 1, "le": 1,
}

func init() {
	tests = map[string]func(r *runtime, v Value, args []Value) bool{
		"odd":         remainder(2, 1),
		"even":        remainder(2, 0),
		"divisibleby": func(r *runtime, v Value, args []Value) bool { return leaves(r, v, args[0], int64(0)) },
		"filter":      func(_ *runtime, v Value, _ []Value) bool { return isKey(filters, v) },
		"test":        func(_ *runtime, v Value, _ []Value) bool { return isKey(tests, v) },
		"lower":       caseTest(isLower),
		"upper":       caseTest(isUpper),
		"iterable":    func(r *runtime, v Value, _ []Value) bool { return iterable(v) },
		"sameas":      sameAs,
	}
	for id, is := range map[string]func(v Value) bool{
		"defined":   func(v Value) bool { _, u := v.(*undefined); return !u },
		"undefined": func(v Value) bool { _, u := v.(*undefined); return u },
		"none":      func(v Value) bool { return v == nil },
		"boolean":   func(v Value) bool { _, ok := v.(bool); return ok },
		"true":      func(v Value) bool { return v == true },
		"false":     func(v Value) bool { return v == false },
		"integer":   isInteger,
		"float":     func(v Value) bool { _, ok := v.(float64); return ok },
		"number":    func(v Value) bool { _, _, _, ok := numeric(v); return ok },
		"string":    func(v Value) bool { _, ok := textOf(v); return ok },
		"mapping":   func(v Value) bool { _, ok := v.(*Map); return ok },
		"escaped":   func(v Value) bool { _, ok := v.(markup); return ok },
		"sequence":  isSequence,
		"callable":  isCallable,
	} {
		tests[id] = func(_ *runtime, v Value, _ []Value) bool { return is(v) }
	}
	for op, ids := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
		"<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"}, "in": {"in"},
	} {
		for _, id := range ids {
			tests[id] = func(r *runtime, v Value, args []Value) bool { return r.compare(op, v, args[0]) }
		}
	}
}

// isKey reports whether v is the name of an entry of known.
func isKey[T any](known map[string]T, v Value) bool {
	id, ok := textOf(v)
	_, found := known[id]
	return ok && found
}

func unknownTest(id string, atLine int) error {
	return at(failf(Syntax, "no test named '%s'", id), atLine)
}

func (ev *evaluator) evalTest(n *test, f *frame) Value {
	v := ev.eval(n.object, f)
	args, named := ev.arguments(&n.arguments, f)
	if named.Len() > 0 {
		panic(failf(Unsupported, "keyword arguments of the test '%s'", n.name))
	}
	return ev.applyTest(n.name, v, args)
}

func (r *runtime) applyTest(id string, v Value, args []Value) bool {
	is, known := tests[id]
	if !known {
		panic(unknownTest(id, 0))
	}
	if len(args) != testArity[id] {
		panic(typeErrorf("the test '%s' takes %d argument(s), got %d", id, testArity[id], len(args)))
	}
	r.read(v)
	r.read(args...)
	return is(r, v, args)
}

func remainder(divisor, want int64) func(r *runtime, v Value, args []Value) bool {
	return func(r *runtime, v Value, _ []Value) bool { return leaves(r, v, divisor, want) }
}

// leaves reports whether v % divisor is want.
func leaves(r *runtime, v, divisor Value, want int64) bool {
	return r.equal(r.binary("%", v, divisor), want, 0)
}

func caseTest(is func(s string) bool) func(r *runtime, v Value, args []Value) bool {
	return func(r *runtime, v Value, _ []Value) bool {
		s := r.str(v)
		r.spell(len(s))
		return is(s)
	}
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

func isSequence(v Value) bool {
	switch v.(type) {
	case string, markup, *List, *Tuple, *Map, *interval, *undefined:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *function, *macro, *loop, *undefined:
		return true
	}
	return false
}

func iterable(v Value) bool {
	switch v.(type) {
	case string, markup, *List, *Tuple, *Map, *interval, *undefined, *view, *iterator, *loop:
		return true
	}
	return false
}

// sameAs is Python's "is". It answers for the singletons and for values that templates hold by
// reference.
func sameAs(r *runtime, v Value, args []Value) bool {
	other := args[0]
	switch v.(type) {
	case nil, bool, *List, *Tuple, *Map, *namespace, *macro, *loop, *iterator, *interval, *undefined:
		return v == other
	}
	if !r.equal(v, other, 0) {
		return false
	}
	if typeName(v) != typeName(other) {
		return false
	}
	panic(failf(Unsupported, "whether two equal values of type %s are the same object", typeName(v)))
}
