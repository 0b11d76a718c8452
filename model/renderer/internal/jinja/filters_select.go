package jinja

// selectFilters map and choose items lazily.
var selectFilters = map[string]builtin{
	"map": {"*", func(c *input) Value {
		return c.each(func() func(Value) (Value, bool) {
			f := c.mapping()
			return func(item Value) (Value, bool) { return f(item), true }
		})
	}},
	"select":     choose(false, true),
	"reject":     choose(false, false),
	"selectattr": choose(true, true),
	"rejectattr": choose(true, false),
}

// mapping returns the function that a map filter applies to an item: it reads an attribute or
// applies another filter by name.
func (c *input) mapping() func(Value) Value {
	if attribute, ok := c.named.Get("attribute"); ok && len(c.args) == 0 {
		rest := c.named.clone()
		rest.remove("attribute")
		fallback, _ := rest.remove("default")
		if rest.Len() > 0 {
			panic(typeErrorf("map got an unexpected keyword argument '%v'", rest.keys[0]))
		}
		return getter(c.r, attribute, fallback)
	}
	if len(c.args) == 0 {
		panic(typeErrorf("map requires a filter argument"))
	}
	id, ok := textOf(c.args[0])
	if !ok {
		panic(typeErrorf("map wants the name of a filter, not %s", typeName(c.args[0])))
	}
	return func(item Value) Value { return c.r.filter(id, item, c.args[1:], c.named) }
}

// each returns the lazy sequence of the values that step keeps. prepare makes step when the first
// item is read; if the input is false it never runs, as in Jinja.
func (c *input) each(prepare func() func(Value) (Value, bool)) *iterator {
	var it *iterator
	var step func(Value) (Value, bool)
	return c.r.lazily(func() (Value, bool) {
		if it == nil {
			if !truth(c.self) {
				return nil, false
			}
			step = prepare()
			it = c.r.iterate(c.self)
		}
		for item := range it.all {
			if kept, keep := step(item); keep {
				return kept, true
			}
		}
		return nil, false
	})
}

// choose returns the filter select or reject, or its form that tests an attribute.
func choose(byAttribute, want bool) builtin {
	return builtin{"*", func(c *input) Value {
		return c.each(func() func(Value) (Value, bool) {
			get, args := getter(c.r, nil, nil), c.args
			if byAttribute {
				if len(args) == 0 {
					panic(typeErrorf("missing parameter for attribute name"))
				}
				get, args = getter(c.r, args[0], nil), args[1:]
			}
			if c.named.Len() > 0 {
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
					is = c.r.test(id, subject, args[1:])
				}
				return item, is == want
			}
		})
	}}
}
