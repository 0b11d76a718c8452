package jinja

import (
	"slices"
	"strings"
)

// attr returns the attribute that a value has in Python; ok is false if there is none. An attribute
// that the sandbox hides is an undefined value, which fails when it is used. An attribute that
// exists only in Python is an error.
func (r *runtime) attr(v Value, id string) (found Value, ok bool, err error) {
	switch x := v.(type) {
	case *undefined:
		return nil, false, nil
	case *namespace:
		found, ok = x.attrs.Get(id)
		return found, ok, nil
	case *loop:
		return x.attr(id)
	case *macro:
		found, ok = x.attr(id)
		return found, ok, nil
	case *cycler:
		return x.attr(id)
	}
	kind := typeName(v)
	if strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__") || slices.Contains(mutators[kind], id) {
		return &undefined{"access to attribute '" + id + "' of '" + kind + "' object is unsafe", Security}, true, nil
	}
	switch x := v.(type) {
	case string:
		if m, known := stringMethods[id]; known {
			return bindString(id, x, m), true, nil
		}
	case *Map:
		if m, known := mapMethods[id]; known {
			return &function{id, func(r *runtime, args []Value, named *Map) (Value, error) { return m(r, x, args, named) }}, true, nil
		}
	case *List:
		if found, ok := sequenceMethod(id, x.Items); ok {
			return found, true, nil
		}
	case *Tuple:
		if found, ok := sequenceMethod(id, x.Items); ok && id != "copy" {
			return found, true, nil
		}
	case *function:
		if id == "fromkeys" && x == globals["dict"] {
			return &function{id, fromKeys}, true, nil
		}
	}
	if slices.Contains(pythonOnly[kind], id) {
		return nil, false, failf(Unsupported, "the attribute '%s' of a %s", id, kind)
	}
	return nil, false, nil
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
func (n *namespace) set(id string, v Value) error {
	if strings.HasPrefix(id, "_") {
		return failf(Security, "a namespace cannot store '%s': names that begin with an underscore are refused", id)
	}
	n.attrs.Set(id, v)
	return nil
}

type mapMethod func(r *runtime, m *Map, args []Value, named *Map) (Value, error)

var mapMethods = map[string]mapMethod{
	"keys":   viewMethod("keys"),
	"values": viewMethod("values"),
	"items":  viewMethod("items"),
	"copy": func(r *runtime, m *Map, args []Value, named *Map) (Value, error) {
		if err := noArguments("copy", args, named); err != nil {
			return nil, err
		}
		return m.clone(), r.room(32 * m.Len())
	},
	"get": func(_ *runtime, m *Map, args []Value, named *Map) (Value, error) {
		if len(args) < 1 || len(args) > 2 || named.Len() > 0 {
			return nil, typeErrorf("get takes a key and a default")
		}
		v, ok, err := m.lookup(args[0])
		if !ok && err == nil && len(args) == 2 {
			return args[1], nil
		}
		return v, err
	},
}

func viewMethod(kind string) mapMethod {
	return func(_ *runtime, m *Map, args []Value, named *Map) (Value, error) {
		return &view{m, kind}, noArguments(kind, args, named)
	}
}

func noArguments(id string, args []Value, named *Map) error {
	if len(args) > 0 || named.Len() > 0 {
		return typeErrorf("%s takes no arguments", id)
	}
	return nil
}

// sequenceMethod returns a method that lists and tuples share; ok is false for any other name.
func sequenceMethod(id string, items []Value) (method *function, ok bool) {
	switch id {
	case "count":
		return &function{id, func(r *runtime, args []Value, named *Map) (Value, error) {
			if len(args) != 1 || named.Len() > 0 {
				return nil, typeErrorf("count takes one value")
			}
			n := int64(0)
			for _, item := range items {
				same, err := r.equal(item, args[0], 0)
				if err != nil {
					return nil, err
				}
				if same {
					n++
				}
			}
			return n, nil
		}}, true
	case "index":
		return &function{id, func(r *runtime, args []Value, named *Map) (Value, error) {
			if len(args) != 1 || named.Len() > 0 {
				return nil, failf(Unsupported, "index with other than one argument")
			}
			for i, item := range items {
				if same, err := r.equal(item, args[0], 0); err != nil || same {
					return int64(i), err
				}
			}
			return nil, typeErrorf("the value of index is not in the sequence")
		}}, true
	case "copy":
		return &function{id, func(_ *runtime, args []Value, named *Map) (Value, error) {
			return &List{items}, noArguments(id, args, named)
		}}, true
	}
	return nil, false
}
