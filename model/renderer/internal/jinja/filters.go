package jinja

import "maps"

// filters holds the filters by name.
var filters map[string]builtin

func init() {
	filters = map[string]builtin{}
	for _, group := range []map[string]builtin{textFilters, sequenceFilters, selectFilters, numberFilters, valueFilters} {
		maps.Copy(filters, group)
	}
	for alias, id := range map[string]string{"count": "length", "d": "default", "e": "escape"} {
		filters[alias] = filters[id]
	}
	for _, id := range []string{
		"attr", "filesizeformat", "forceescape", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr",
	} {
		filters[id] = unsupported("the filter '" + id + "'")
	}
}

// unsupported is a builtin that exists only in Python.
func unsupported(what string) builtin {
	return builtin{"*", func(*input) Value { panic(failf(Unsupported, "%s", what)) }}
}

func unknownFilter(id string, atLine int) error {
	return at(failf(Syntax, "no filter named '%s'", id), atLine)
}

// applyFilter evaluates the arguments of a filter node and applies it.
func (ev *evaluator) applyFilter(n *filter, v Value, f *frame) Value {
	args, named := ev.arguments(&n.arguments, f)
	outer := ev.line
	ev.line = n.pos()
	v = ev.filter(n.name, v, args, named)
	ev.line = outer
	return v
}

func (r *runtime) filter(id string, v Value, args []Value, named *Map) Value {
	b, known := filters[id]
	if !known {
		panic(unknownFilter(id, 0))
	}
	return r.apply(id, b, v, args, named)
}

// valueFilters convert values or choose between them.
var valueFilters = map[string]builtin{
	"default": {"default_value? boolean?", func(c *input) Value {
		if _, absent := c.self.(*undefined); absent || c.flag(1) && !truth(c.self) {
			return c.or(0, "")
		}
		return c.self
	}},
	"string": {"", func(c *input) Value {
		if _, marked := c.self.(markup); marked {
			return c.self
		}
		return c.r.str(c.self)
	}},
	"safe": {"", func(c *input) Value { return markup(c.r.str(c.self)) }},
	"escape": {"", func(c *input) Value {
		if _, marked := c.self.(markup); marked {
			return c.self
		}
		s := c.r.str(c.self)
		c.r.room(5 * len(s))
		return markup(escapeHTML(s))
	}},
	"tojson": {"ensure_ascii? indent? separators? sort_keys?", func(c *input) Value {
		style := &jsonStyle{run: c.r, ascii: c.flag(0), item: ", ", key: ": ", sortKeys: c.flag(3)}
		if indent := c.or(1, nil); indent != nil {
			style.pretty, style.item, style.indent = true, ",", c.indent("indent", indent)
		}
		if separators := c.or(2, nil); separators != nil {
			pair := c.r.unpack(separators, 2)
			style.item, style.key = wantText("tojson(separators)", pair[0]), wantText("tojson(separators)", pair[1])
		}
		w := c.r.textWriter()
		style.write(w, c.self, 0)
		c.r.spell(2 * w.Len())
		return w.String()
	}},
}

// indent returns the text that the argument called arg is, or its number of spaces.
func (c *input) indent(arg string, v Value) string {
	if s, ok := textOf(v); ok {
		return s
	}
	return c.r.repeat(" ", wantInt(c.name+"("+arg+")", v)).(string)
}
