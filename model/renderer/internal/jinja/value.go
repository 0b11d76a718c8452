package jinja

import "math/big"

// Value is a value of the template language:
//
//	nil                 None
//	bool, int64, float64, string
//	*big.Int            an integer beyond 64 bits, for printing and comparing only
//	*List, *Tuple, *Map
//
// and, made by templates only, undefined values, iterators, views, ranges, namespaces, macros and
// functions.
type Value = any

// List is Python's list. The sandbox lets no template change one.
type List struct{ Items []Value }

// Tuple is Python's tuple.
type Tuple struct{ Items []Value }

// undefined is the value of a name, attribute or item that does not exist.
type undefined struct {
	message string
	kind    Kind // of the error on use: Undefined, or Security for attributes that the sandbox hides
}

func undefinedf(format string, args ...any) *undefined {
	return &undefined{message: failf(Undefined, format, args...).Msg, kind: Undefined}
}

func (u *undefined) fail() error { return failf(u.kind, "%s", u.message) }

// markup is text that the safe or escape filter has marked. Adding a string to it escapes the
// string.
type markup string

// iterator is a Python generator or iterator: a template can read it once, it has no length, and it
// is always true.
type iterator struct {
	next func() (v Value, ok bool)
}

// all is the sequence of the items that are left.
func (it *iterator) all(yield func(Value) bool) {
	for v, ok := it.next(); ok && yield(v); v, ok = it.next() {
	}
}

// view is the result of a mapping's keys, values or items.
type view struct {
	of   *Map
	kind string // keys, values, items
}

// interval is Python's range.
type interval struct{ start, stop, step int64 }

func (i *interval) length() int64 {
	switch {
	case i.step > 0 && i.start < i.stop:
		return (i.stop-i.start-1)/i.step + 1
	case i.step < 0 && i.start > i.stop:
		return (i.start-i.stop-1)/-i.step + 1
	}
	return 0
}

// namespace is the one value that a template can change.
type namespace struct{ attrs *Map }

// function is a global, or a method bound to its value.
type function struct {
	name string
	self Value // nil for a global
	builtin
}

// typeName is the name that Python's type() gives.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Map:
		return "dict"
	case *undefined:
		return "Undefined"
	case *iterator:
		return "generator"
	case *view:
		return "dict_" + v.kind
	case *interval:
		return "range"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	case *cycler:
		return "Cycler"
	}
	return "function"
}

// truth is Python's bool().
func truth(v Value) bool {
	switch x := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case markup:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case *Tuple:
		return len(x.Items) > 0
	case *Map:
		return x.Len() > 0
	case *view:
		return x.of.Len() > 0
	case *interval:
		return x.length() > 0
	}
	return true
}
