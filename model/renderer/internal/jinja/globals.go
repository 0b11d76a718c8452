package jinja

import "maps"

// globals holds the names that every template can use. The functions keep no state.
var globals map[string]Value

func init() {
	globals = maps.Collect(func(yield func(string, Value) bool) {
		for id, f := range map[string]func(r *runtime, args []Value, named *Map) Value{
			"range": rangeOf, "dict": dictOf, "namespace": namespaceOf, "cycler": cyclerOf, "joiner": joinerOf,
			"raise_exception": raise, "strftime_now": strftimeNow, "lipsum": lipsum,
		} {
			yield(id, &function{id, f})
		}
	})
}

func raise(r *runtime, args []Value, named *Map) Value {
	a := bind("raise_exception", args, named, "message")
	message := r.str(a[0])
	panic(&Error{Kind: Raised, Msg: message})
}

func lipsum(*runtime, []Value, *Map) Value {
	panic(failf(Unsupported, "lipsum, whose text is random"))
}

// maxRange is the largest length of a range in Jinja's sandbox.
const maxRange = 100_000

func rangeOf(_ *runtime, args []Value, named *Map) Value {
	if len(args) < 1 || len(args) > 3 || named.Len() > 0 {
		panic(typeErrorf("range takes 1 to 3 integers"))
	}
	var n [3]int64
	for i, a := range args {
		v := wantInt("range", a)
		if abs(v) > 1<<53 {
			panic(failf(Unsupported, "a range beyond 2^53"))
		}
		n[i] = v
	}
	rng := &interval{n[0], n[1], n[2]}
	switch len(args) {
	case 1:
		rng = &interval{0, n[0], 1}
	case 2:
		rng.step = 1
	}
	if rng.step == 0 {
		panic(typeErrorf("range() arg 3 must not be zero"))
	}
	if rng.length() > maxRange {
		panic(failf(Limit, "range too big: the sandbox blocks more than %d items", maxRange))
	}
	return rng
}

// dictOf is Python's dict(): from a mapping or pairs, and keywords.
func dictOf(r *runtime, args []Value, named *Map) Value {
	m := &Map{}
	if len(args) > 1 {
		panic(typeErrorf("dict takes at most one positional argument"))
	}
	if len(args) == 1 {
		if from, ok := args[0].(*Map); ok {
			r.spend(4 * from.Len())
			m = from.clone()
		} else {
			addPairs(r, m, args[0])
		}
	}
	r.spend(4 * named.Len())
	for i, k := range named.keys {
		m.Set(k.(string), named.vals[i])
	}
	return m
}

func addPairs(r *runtime, m *Map, pairs Value) {
	items := r.collect(pairs)
	for _, item := range items {
		pair := r.unpack(item, 2)
		r.key(pair[0])
		m.set(pair[0], pair[1])
	}
}

func fromKeys(r *runtime, args []Value, named *Map) Value {
	a := bind("fromkeys", args, named, "iterable", "value?")
	keys := r.collect(a[0])
	m := &Map{}
	for _, k := range keys {
		r.key(k)
		m.set(k, orDefault(a[1], nil))
	}
	return m
}

func namespaceOf(r *runtime, args []Value, named *Map) Value {
	attrs := dictOf(r, args, named)
	ns := &namespace{attrs: &Map{}}
	r.spend(8 * attrs.(*Map).Len())
	for i, k := range attrs.(*Map).keys {
		id, ok := k.(string)
		if !ok {
			panic(failf(Unsupported, "a namespace attribute that is not a name"))
		}
		ns.set(id, attrs.(*Map).vals[i])
	}
	return ns
}

// cycler hands out its items in turn.
type cycler struct {
	items []Value
	next  int
}

func cyclerOf(_ *runtime, args []Value, named *Map) Value {
	if len(args) == 0 || named.Len() > 0 {
		panic(typeErrorf("cycler takes at least one item"))
	}
	return &cycler{items: args}
}

func (c *cycler) attr(id string) (Value, bool) {
	switch id {
	case "items":
		return &Tuple{c.items}, true
	case "pos":
		return int64(c.next), true
	case "current":
		return c.items[c.next], true
	case "next":
		return &function{id, func(_ *runtime, args []Value, named *Map) Value {
			v := c.items[c.next]
			c.next = (c.next + 1) % len(c.items)
			noArguments(id, args, named)
			return v
		}}, true
	case "reset":
		return &function{id, func(_ *runtime, args []Value, named *Map) Value {
			c.next = 0
			noArguments(id, args, named)
			return nil
		}}, true
	}
	return nil, false
}

// joinerOf returns a function that returns "" on its first call and the separator on every other.
func joinerOf(_ *runtime, args []Value, named *Map) Value {
	a := bind("joiner", args, named, "sep?")
	used := false
	return &function{"joiner", func(_ *runtime, args []Value, named *Map) Value {
		if !used {
			used = true
			noArguments("joiner", args, named)
			return ""
		}
		noArguments("joiner", args, named)
		return orDefault(a[0], ", ")
	}}
}
