package jinja

import "math/big"

// tests holds the tests that may follow "is".
var tests map[string]builtin

func init() {
	tests = map[string]builtin{
		"odd":         {"", func(c *input) Value { return leaves(c, int64(2), 1) }},
		"even":        {"", func(c *input) Value { return leaves(c, int64(2), 0) }},
		"divisibleby": {"num", func(c *input) Value { return leaves(c, c.args[0], 0) }},
		"filter":      {"", func(c *input) Value { return isKey(filters, c.self) }},
		"test":        {"", func(c *input) Value { return isKey(tests, c.self) }},
		"lower":       spelled(isLower),
		"upper":       spelled(isUpper),
		"sameas":      {"other", sameAs},
	}
	for id, is := range map[string]func(v Value) bool{
		"defined":   func(v Value) bool { return !isA[*undefined](v) },
		"undefined": isA[*undefined],
		"none":      func(v Value) bool { return v == nil },
		"boolean":   isA[bool],
		"true":      func(v Value) bool { return v == true },
		"false":     func(v Value) bool { return v == false },
		"integer":   isInteger,
		"float":     isA[float64],
		"number":    func(v Value) bool { _, _, _, ok := numeric(v); return ok },
		"string":    func(v Value) bool { _, ok := textOf(v); return ok },
		"mapping":   isA[*Map],
		"escaped":   isA[markup],
		"iterable":  iterable,
		"sequence":  isSequence,
		"callable":  isCallable,
	} {
		tests[id] = builtin{"", func(c *input) Value { return is(c.self) }}
	}
	for op, ids := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"},
		"<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"}, "in": {"in"},
	} {
		for _, id := range ids {
			tests[id] = builtin{"other", func(c *input) Value { return c.r.compare(op, c.self, c.args[0]) }}
		}
	}
}

// isA reports whether a value has a type.
func isA[T any](v Value) bool {
	_, ok := v.(T)
	return ok
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
	return ev.test(n.name, v, args)
}

func (r *runtime) test(id string, v Value, args []Value) bool {
	is, known := tests[id]
	if !known {
		panic(unknownTest(id, 0))
	}
	return r.apply(id, is, v, args, &Map{}).(bool)
}

// leaves reports whether the input % divisor is want.
func leaves(c *input, divisor Value, want int64) bool {
	return c.r.equal(c.r.binary("%", c.self, divisor), want, 0)
}

// spelled returns the test or method that reads a text letter by letter.
func spelled(is func(s string) bool) builtin {
	return builtin{"", func(c *input) Value {
		s := c.r.str(c.self)
		c.r.spell(len(s))
		return is(s)
	}}
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
func sameAs(c *input) Value {
	v, other := c.self, c.args[0]
	switch v.(type) {
	case nil, bool, *List, *Tuple, *Map, *namespace, *macro, *loop, *iterator, *interval, *undefined:
		return v == other
	}
	if !c.r.equal(v, other, 0) || typeName(v) != typeName(other) {
		return false
	}
	panic(failf(Unsupported, "whether two equal values of type %s are the same object", typeName(v)))
}
