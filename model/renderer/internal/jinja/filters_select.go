package jinja

// selectFilters map and choose items lazily.
var selectFilters = map[string]filterSpec{
	"map":        {raw: mapFilter},
	"select":     {raw: choose(false, true)},
	"reject":     {raw: choose(false, false)},
	"selectattr": {raw: choose(true, true)},
	"rejectattr": {raw: choose(true, false)},
}

func mapFilter(r *runtime, v Value, args []Value, named *Map) (Value, error) {
	return each(r, v, func() (func(Value) (Value, bool, error), error) {
		f, err := mapping(r, args, named)
		if err != nil {
			return nil, err
		}
		return func(item Value) (Value, bool, error) {
			mapped, err := f(item)
			return mapped, true, err
		}, nil
	}), nil
}

// mapping returns the function that a map filter applies to an item: it reads an attribute or
// applies another filter by name.
func mapping(r *runtime, args []Value, named *Map) (func(Value) (Value, error), error) {
	if attribute, ok := named.Get("attribute"); ok && len(args) == 0 {
		rest := named.clone()
		rest.remove("attribute")
		fallback, _ := rest.remove("default")
		if rest.Len() > 0 {
			return nil, typeErrorf("map got an unexpected keyword argument '%v'", rest.keys[0])
		}
		return attributeGetterOr(r, attribute, fallback, nil), nil
	}
	if len(args) == 0 {
		return nil, typeErrorf("map requires a filter argument")
	}
	id, ok := textOf(args[0])
	if !ok {
		return nil, typeErrorf("map wants the name of a filter, not %s", typeName(args[0]))
	}
	return func(item Value) (Value, error) { return r.filter(id, item, args[1:], named) }, nil
}

// each returns the lazy sequence of the values that step keeps. prepare makes step when the first
// item is read; if v is false it never runs, as in Jinja.
func each(r *runtime, v Value, prepare func() (func(Value) (Value, bool, error), error)) *iterator {
	var it *iterator
	var step func(Value) (Value, bool, error)
	return r.lazily(func() (Value, bool, error) {
		if it == nil {
			if !truth(v) {
				return nil, false, nil
			}
			var err error
			if step, err = prepare(); err != nil {
				return nil, false, err
			}
			if it, err = r.iterate(v); err != nil {
				return nil, false, err
			}
		}
		for {
			item, ok, err := it.next()
			if err != nil || !ok {
				return nil, false, err
			}
			kept, keep, err := step(item)
			if err != nil || keep {
				return kept, err == nil, err
			}
		}
	})
}

// choose returns the filter select or reject, or its form that tests an attribute.
func choose(byAttribute, want bool) func(r *runtime, v Value, args []Value, named *Map) (Value, error) {
	return func(r *runtime, v Value, args []Value, named *Map) (Value, error) {
		return each(r, v, func() (func(Value) (Value, bool, error), error) {
			get := attributeGetter(r, nil, nil)
			if byAttribute {
				if len(args) == 0 {
					return nil, typeErrorf("missing parameter for attribute name")
				}
				get, args = attributeGetter(r, args[0], nil), args[1:]
			}
			if named.Len() > 0 {
				return nil, failf(Unsupported, "keyword arguments of a test")
			}
			return func(item Value) (Value, bool, error) {
				subject, err := get(item)
				if err != nil {
					return nil, false, err
				}
				is := truth(subject)
				if len(args) > 0 {
					id, ok := textOf(args[0])
					if !ok {
						return nil, false, typeErrorf("the name of a test must be a string, not %s", typeName(args[0]))
					}
					if is, err = r.applyTest(id, subject, args[1:]); err != nil {
						return nil, false, err
					}
				}
				return item, is == want, nil
			}, nil
		}), nil
	}
}
