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
		return attributeOf(x, loopAttributes, loopMethods, id)
	case *macro:
		return attributeOf(x, macroAttributes, nil, id)
	case *cycler:
		return attributeOf(x, cyclerAttributes, cyclerMethods, id)
	}
	kind := typeName(v)
	if strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__") || slices.Contains(mutators[kind], id) {
		return &undefined{"access to attribute '" + id + "' of '" + kind + "' object is unsafe", Security}, true
	}
	if m, known := methods[kind][id]; known {
		return &function{id, v, m}, true
	}
	if id == "fromkeys" && v == globals["dict"] {
		return &function{id, nil, builtin{"iterable value?", fromKeys}}, true
	}
	if slices.Contains(pythonOnly[kind], id) {
		panic(failf(Unsupported, "the attribute '%s' of a %s", id, kind))
	}
	return nil, false
}

// attributeOf returns an attribute or a method of a value that has tables of its own.
func attributeOf[T any](v T, attributes map[string]func(T) Value, methods map[string]builtin, id string) (Value, bool) {
	if get, ok := attributes[id]; ok {
		return get(v), true
	}
	m, ok := methods[id]
	return &function{id, v, m}, ok
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

// methods holds the methods of values by the names of their types.
var methods = map[string]map[string]builtin{
	"list":  {"count": countItems, "index": indexOfItem, "copy": {"", func(c *input) Value { return &List{c.self.(*List).Items} }}},
	"tuple": {"count": countItems, "index": indexOfItem},
	"dict": {
		"keys":   {"", viewOf},
		"values": {"", viewOf},
		"items":  {"", viewOf},
		"copy": {"", func(c *input) Value {
			c.r.spend(4 * c.self.(*Map).Len())
			return c.self.(*Map).clone()
		}},
		"get": {"/ key default?", func(c *input) Value {
			c.r.key(c.args[0])
			if v, ok := c.self.(*Map).lookup(c.args[0]); ok {
				return v
			}
			return c.or(1, nil)
		}},
	},
}

func viewOf(c *input) Value { return &view{c.self.(*Map), c.name} }

var countItems = builtin{"/ value", func(c *input) Value {
	n := int64(0)
	for _, item := range c.r.collect(c.self) {
		if c.r.equal(item, c.args[0], 0) {
			n++
		}
	}
	return n
}}

var indexOfItem = builtin{"*", func(c *input) Value {
	if len(c.args) != 1 || c.named.Len() > 0 {
		panic(failf(Unsupported, "index with other than one argument"))
	}
	for i, item := range c.r.collect(c.self) {
		if c.r.equal(item, c.args[0], 0) {
			return int64(i)
		}
	}
	panic(typeErrorf("the value of index is not in the sequence"))
}}
