package jinja

import (
	"slices"
	"strings"
)

// attr returns the attribute that a value has in Python; ok is false if there is none. An attribute
// that the sandbox hides is an undefined value, which fails when it is used. An attribute that
// exists only in Python is an error.
func (r *runtime) attr(v Value, id string) (found Value, ok bool) {
	switch x := v.(type) {
	case *undefined:
		return nil, false
	case *namespace:
		found, ok = x.attrs.Get(id)
		return found, ok
	case *loop:
		return x.attr(id)
	case *macro:
		found, ok = x.attr(id)
		return found, ok
	case *cycler:
		return x.attr(id)
	}
	kind := typeName(v)
	if strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__") || slices.Contains(mutators[kind], id) {
		return &undefined{"access to attribute '" + id + "' of '" + kind + "' object is unsafe", Security}, true
	}
	switch x := v.(type) {
	case string:
		if m, known := stringMethods[id]; known {
			return bindString(id, x, m), true
		}
	case *Map:
		if m, known := mapMethods[id]; known {
			return &function{id, func(r *runtime, args []Value, named *Map) Value { return m(r, x, args, named) }}, true
		}
	case *List:
		if found, ok := sequenceMethod(id, x.Items); ok {
			return found, true
		}
	case *Tuple:
		if found, ok := sequenceMethod(id, x.Items); ok && id != "copy" {
			return found, true
		}
	case *function:
		if id == "fromkeys" && x == globals["dict"] {
			return &function{id, fromKeys}, true
		}
	}
	if slices.Contains(pythonOnly[kind], id) {
		panic(failf(Unsupported, "the attribute '%s' of a %s", id, kind))
	}
	return nil, false
}

// mutators are the methods that the immutable sandbox forbids.
var mutators = map[string][]string{
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
	"list": {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"},
}

// pythonOnly are attributes that templates can use in Python but not in this package.
var pythonOnly = map[string][]string{
	"str": {"encode", "maketrans", "translate"},
	"int": {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "imag", "numerator",
		"real", "to_bytes"},
	"bool": {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "imag", "numerator",
		"real", "to_bytes"},
	"float":       {"as_integer_ratio", "conjugate", "fromhex", "hex", "imag", "is_integer", "real"},
	"range":       {"count", "index", "start", "step", "stop"},
	"generator":   {"close", "send", "throw", "gi_running", "gi_suspended", "gi_yieldfrom"},
	"dict_keys":   {"isdisjoint", "mapping"},
	"dict_values": {"mapping"},
	"dict_items":  {"isdisjoint", "mapping"},
	"dict":        {"fromkeys"},
	"Markup": {"capitalize", "casefold", "center", "count", "encode", "endswith", "escape", "expandtabs", "find", "format",
		"format_map", "index", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric",
		"isprintable", "isspace", "istitle", "isupper", "join", "ljust", "lower", "lstrip", "maketrans", "partition",
		"removeprefix", "removesuffix", "replace", "rfind", "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split",
		"splitlines", "startswith", "strip", "striptags", "swapcase", "title", "translate", "unescape", "upper", "zfill"},
}

// set assigns an attribute of a namespace.
func (n *namespace) set(id string, v Value) {
	if strings.HasPrefix(id, "_") {
		panic(failf(Security, "a namespace cannot store '%s': names that begin with an underscore are refused", id))
	}
	n.attrs.Set(id, v)
}

type mapMethod func(r *runtime, m *Map, args []Value, named *Map) Value

var mapMethods = map[string]mapMethod{
	"keys":   viewMethod("keys"),
	"values": viewMethod("values"),
	"items":  viewMethod("items"),
	"copy": func(r *runtime, m *Map, args []Value, named *Map) Value {
		noArguments("copy", args, named)
		r.spend(4 * m.Len())
		return m.clone()
	},
	"get": func(r *runtime, m *Map, args []Value, named *Map) Value {
		if len(args) < 1 || len(args) > 2 || named.Len() > 0 {
			panic(typeErrorf("get takes a key and a default"))
		}
		r.key(args[0])
		v, ok := m.lookup(args[0])
		if !ok && len(args) == 2 {
			return args[1]
		}
		return v
	},
}

func viewMethod(kind string) mapMethod {
	return func(_ *runtime, m *Map, args []Value, named *Map) Value {
		noArguments(kind, args, named)
		return &view{m, kind}
	}
}

func noArguments(id string, args []Value, named *Map) {
	if len(args) > 0 || named.Len() > 0 {
		panic(typeErrorf("%s takes no arguments", id))
	}
}

// sequenceMethod returns a method that lists and tuples share; ok is false for any other name.
func sequenceMethod(id string, items []Value) (method *function, ok bool) {
	switch id {
	case "count":
		return &function{id, func(r *runtime, args []Value, named *Map) Value {
			if len(args) != 1 || named.Len() > 0 {
				panic(typeErrorf("count takes one value"))
			}
			n := int64(0)
			for _, item := range items {
				if r.equal(item, args[0], 0) {
					n++
				}
			}
			return n
		}}, true
	case "index":
		return &function{id, func(r *runtime, args []Value, named *Map) Value {
			if len(args) != 1 || named.Len() > 0 {
				panic(failf(Unsupported, "index with other than one argument"))
			}
			for i, item := range items {
				if r.equal(item, args[0], 0) {
					return int64(i)
				}
			}
			panic(typeErrorf("the value of index is not in the sequence"))
		}}, true
	case "copy":
		return &function{id, func(_ *runtime, args []Value, named *Map) Value {
			noArguments(id, args, named)
			return &List{items}
		}}, true
	}
	return nil, false
}
