package jinja

// filterSpec describes a filter. params are its parameters after the input, as for [bind]; apply
// gets the input v and the bound arguments a. A filter with raw binds its arguments itself.
type filterSpec struct {
	params []string
	apply  func(r *runtime, v Value, a []Value) (Value, error)
	raw    func(r *runtime, v Value, args []Value, named *Map) (Value, error)
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
		filters[id] = filterSpec{raw: func(*runtime, Value, []Value, *Map) (Value, error) {
			return nil, failf(Unsupported, "the filter '%s'", id)
		}}
	}
}

func unknownFilter(id string, atLine int) error {
	return at(failf(Syntax, "no filter named '%s'", id), atLine)
}

// applyFilter evaluates the arguments of a filter node and applies it.
func (ev *evaluator) applyFilter(n *filter, v Value, f *frame) (Value, error) {
	args, named, err := ev.arguments(&n.arguments, f)
	if err != nil {
		return nil, err
	}
	v, err = ev.filter(n.name, v, args, named)
	return v, at(err, n.pos())
}

func (r *runtime) filter(id string, v Value, args []Value, named *Map) (Value, error) {
	spec, known := filters[id]
	if !known {
		return nil, unknownFilter(id, 0)
	}
	if spec.raw != nil {
		return spec.raw(r, v, args, named)
	}
	bound, err := bind(id, args, named, spec.params...)
	if err != nil {
		return nil, err
	}
	return spec.apply(r, v, bound)
}

// valueFilters convert values or choose between them.
var valueFilters = map[string]filterSpec{
	"default": {params: []string{"default_value?", "boolean?"}, apply: func(_ *runtime, v Value, a []Value) (Value, error) {
		_, absent := v.(*undefined)
		if absent || truth(orDefault(a[1], false)) && !truth(v) {
			return orDefault(a[0], ""), nil
		}
		return v, nil
	}},
	"string": {apply: func(r *runtime, v Value, _ []Value) (Value, error) {
		if _, marked := v.(markup); marked {
			return v, nil
		}
		return r.str(v)
	}},
	"safe": {apply: func(r *runtime, v Value, _ []Value) (Value, error) {
		s, err := r.str(v)
		return markup(s), err
	}},
	"escape": {apply: func(r *runtime, v Value, _ []Value) (Value, error) {
		if _, marked := v.(markup); marked {
			return v, nil
		}
		s, err := r.str(v)
		if err != nil {
			return nil, err
		}
		return markup(escapeHTML(s)), r.room(5 * len(s))
	}},
	"tojson": {params: []string{"ensure_ascii?", "indent?", "separators?", "sort_keys?"}, apply: toJSON},
}

func toJSON(r *runtime, v Value, a []Value) (Value, error) {
	style := &jsonStyle{run: r, ascii: truth(orDefault(a[0], false)), item: ", ", key: ": ", sortKeys: truth(orDefault(a[3], false))}
	if indent := orDefault(a[1], nil); indent != nil {
		style.pretty, style.item = true, ","
		if s, ok := textOf(indent); ok {
			style.indent = s
		} else {
			n, err := wantInt("tojson(indent)", indent)
			if err != nil {
				return nil, err
			}
			spaces, err := r.repeat(" ", n)
			if err != nil {
				return nil, err
			}
			style.indent = spaces.(string)
		}
	}
	if separators := orDefault(a[2], nil); separators != nil {
		pair, err := r.unpack(separators, 2)
		if err != nil {
			return nil, err
		}
		if style.item, err = wantText("tojson(separators)", pair[0]); err != nil {
			return nil, err
		}
		if style.key, err = wantText("tojson(separators)", pair[1]); err != nil {
			return nil, err
		}
	}
	w := &limitedText{limit: r.limits.Size}
	if err := style.write(w, v, 0); err != nil {
		return nil, err
	}
	return w.String(), r.spend(w.Len() / 16)
}
