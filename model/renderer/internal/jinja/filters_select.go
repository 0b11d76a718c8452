package jinja

// selectFilters map and choose items lazily.
var selectFilters = map[string]filterSpec{
	"map":        {raw: mapFilter},
	"select":     {raw: choose(false, true)},
	"reject":     {raw: choose(false, false)},
	"selectattr": {raw: choose(true, true)},
	"rejectattr": {raw: choose(true, false)},
}

func mapFilter(r *runtime, v Value, args []Value, named *Map) Value {
	return each(r, v, func() func(Value) (Value, bool) {
		f := mapping(r, args, named)
		return func(item Value) (Value, bool) { return f(item), true }
	})
}

// mapping returns the function that a map filter applies to an item: it reads an attribute or
// applies another filter by name.
func mapping(r *runtime, args []Value, named *Map) func(Value) Value {
	if attribute, ok := named.Get("attribute"); ok && len(args) == 0 {
		rest := named.clone()
		rest.remove("attribute")
		fallback, _ := rest.remove("default")
		if rest.Len() > 0 {
			panic(typeErrorf("map got an unexpected keyword argument '%v'", rest.keys[0]))
		}
		return attributeGetterOr(r, attribute, fallback, nil)
	}
	if len(args) == 0 {
		panic(typeErrorf("map requires a filter argument"))
	}
	id, ok := textOf(args[0])
	if !ok {
		panic(typeErrorf("map wants the name of a filter, not %s", typeName(args[0])))
	}
	return func(item Value) Value { return r.filter(id, item, args[1:], named) }
}

// each returns the lazy sequence of the values that step keeps. prepare makes step when the first
// item is read; if v is false it never runs, as in Jinja.
func each(r *runtime, v Value, prepare func() func(Value) (Value, bool)) *iterator {
	var it *iterator
	var step func(Value) (Value, bool)
	return r.lazily(func() (Value, bool) {
		if it == nil {
			if !truth(v) {
				return nil, false
			}
			step = prepare()
			it = r.iterate(v)
		}
		for {
			item, ok := it.next()
			if !ok {
				return nil, false
			}
			kept, keep := step(item)
			if keep {
				return kept, true
			}
		}
	})
}

// choose returns the filter select or reject, or its form that tests an attribute.
func choose(byAttribute, want bool) func(r *runtime, v Value, args []Value, named *Map) Value {
	return func(r *runtime, v Value, args []Value, named *Map) Value {
		return each(r, v, func() func(Value) (Value, bool) {
			get := attributeGetter(r, nil, nil)
			if byAttribute {
				if len(args) == 0 {
					panic(typeErrorf("missing parameter for attribute name"))
				}
				get, args = attributeGetter(r, args[0], nil), args[1:]
			}
			if named.Len() > 0 {
				panic(failf(Unsupported, "keyword arguments of a test"))
			}
			return func(item Value) (Value, bool) {
				subject := get(item)
				is := truth(subject)
				if len(args) > 0 {
					id, ok := textOf(args[0])
					if !ok {
						panic(typeErrorf("the name of a test must be a string, not %s", typeName(args[0])))
					}
					is = r.applyTest(id, subject, args[1:])
				}
				return item, is == want
			}
		})
	}
}
