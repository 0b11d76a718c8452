package jinja

// filterSpec describes a filter. params are its parameters after the input, as for [bind]; apply
// gets the input v and the bound arguments a. A filter with raw binds its arguments itself.
type filterSpec struct {
	params []string
	apply  func(r *runtime, v Value, a []Value) Value
	raw    func(r *runtime, v Value, args []Value, named *Map) Value
}

var filters map[string]filterSpec

func init() {
	filters = map[string]filterSpec{}
	for _, group := range []map[string]filterSpec{textFilters, sequenceFilters, selectFilters, numberFilters, valueFilters} {
		for id, spec := range group {
			filters[id] = spec
		}
	}
	for alias, id := range map[string]string{"count": "length", "d": "default", "e": "escape"} {
		filters[alias] = filters[id]
	}
	for _, id := range []string{
		"attr", "filesizeformat", "forceescape", "pprint", "random", "striptags", "urlencode", "urlize", "wordwrap", "xmlattr",
	} {
		filters[id] = filterSpec{raw: func(*runtime, Value, []Value, *Map) Value {
			panic(failf(Unsupported, "the filter '%s'", id))
		}}
	}
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
	spec, known := filters[id]
	if !known {
		panic(unknownFilter(id, 0))
	}
	r.read(v)
	r.read(args...)
	if spec.raw != nil {
		return spec.raw(r, v, args, named)
	}
	bound := bind(id, args, named, spec.params...)
	return spec.apply(r, v, bound)
}

// valueFilters convert values or choose between them.
var valueFilters = map[string]filterSpec{
	"default": {params: []string{"default_value?", "boolean?"}, apply: func(_ *runtime, v Value, a []Value) Value {
		_, absent := v.(*undefined)
		if absent || truth(orDefault(a[1], false)) && !truth(v) {
			return orDefault(a[0], "")
		}
		return v
	}},
	"string": {apply: func(r *runtime, v Value, _ []Value) Value {
		if _, marked := v.(markup); marked {
			return v
		}
		return r.str(v)
	}},
	"safe": {apply: func(r *runtime, v Value, _ []Value) Value {
		return markup(r.str(v))
	}},
	"escape": {apply: func(r *runtime, v Value, _ []Value) Value {
		if _, marked := v.(markup); marked {
			return v
		}
		s := r.str(v)
		r.room(5 * len(s))
		return markup(escapeHTML(s))
	}},
	"tojson": {params: []string{"ensure_ascii?", "indent?", "separators?", "sort_keys?"}, apply: toJSON},
}

func toJSON(r *runtime, v Value, a []Value) Value {
	style := &jsonStyle{run: r, ascii: truth(orDefault(a[0], false)), item: ", ", key: ": ", sortKeys: truth(orDefault(a[3], false))}
	if indent := orDefault(a[1], nil); indent != nil {
		style.pretty, style.item = true, ","
		if s, ok := textOf(indent); ok {
			style.indent = s
		} else {
			n := wantInt("tojson(indent)", indent)
			spaces := r.repeat(" ", n)
			style.indent = spaces.(string)
		}
	}
	if separators := orDefault(a[2], nil); separators != nil {
		pair := r.unpack(separators, 2)
		style.item = wantText("tojson(separators)", pair[0])
		style.key = wantText("tojson(separators)", pair[1])
	}
	w := &limitedText{limit: r.limits.Size}
	style.write(w, v, 0)
	r.spell(2 * w.Len())
	return w.String()
}
