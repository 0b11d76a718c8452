package jinja

import "maps"

// globals holds the names that every template can use. The functions keep no state.
var globals map[string]Value

func init() {
	globals = maps.Collect(func(yield func(string, Value) bool) {
		for id, f := range map[string]func(r *runtime, args []Value, named *Map) (Value, error){
			"range": rangeOf, "dict": dictOf, "namespace": namespaceOf, "cycler": cyclerOf, "joiner": joinerOf,
			"raise_exception": raise, "strftime_now": strftimeNow, "lipsum": lipsum,
		} {
			yield(id, &function{id, f})
		}
	})
}

func raise(r *runtime, args []Value, named *Map) (Value, error) {
	a, err := bind("raise_exception", args, named, "message")
	if err != nil {
		return nil, err
	}
	message, err := r.str(a[0])
	if err != nil {
		return nil, err
	}
	return nil, &Error{Kind: Raised, Msg: message}
}

func lipsum(*runtime, []Value, *Map) (Value, error) {
	return nil, failf(Unsupported, "lipsum, whose text is random")
}

// maxRange is the largest length of a range in Jinja's sandbox.
const maxRange = 100_000

func rangeOf(_ *runtime, args []Value, named *Map) (Value, error) {
	if len(args) < 1 || len(args) > 3 || named.Len() > 0 {
		return nil, typeErrorf("range takes 1 to 3 integers")
	}
	var n [3]int64
	for i, a := range args {
		v, err := wantInt("range", a)
		if err != nil {
			return nil, err
		}
		if abs(v) > 1<<53 {
			return nil, failf(Unsupported, "a range beyond 2^53")
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
		return nil, typeErrorf("range() arg 3 must not be zero")
	}
	if rng.length() > maxRange {
		return nil, failf(Limit, "range too big: the sandbox blocks more than %d items", maxRange)
	}
	return rng, nil
}

// dictOf is Python's dict(): from a mapping or pairs, and keywords.
func dictOf(r *runtime, args []Value, named *Map) (Value, error) {
	m := &Map{}
	if len(args) > 1 {
		return nil, typeErrorf("dict takes at most one positional argument")
	}
	if len(args) == 1 {
		if from, ok := args[0].(*Map); ok {
			m = from.clone()
		} else if err := addPairs(r, m, args[0]); err != nil {
			return nil, err
		}
	}
	for i, k := range named.keys {
		m.Set(k.(string), named.vals[i])
	}
	return m, r.room(32 * m.Len())
}

func addPairs(r *runtime, m *Map, pairs Value) error {
	items, err := r.collect(pairs)
	if err != nil {
		return err
	}
	for _, item := range items {
		pair, err := r.unpack(item, 2)
		if err != nil {
			return err
		}
		if err := m.set(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func fromKeys(r *runtime, args []Value, named *Map) (Value, error) {
	a, err := bind("fromkeys", args, named, "iterable", "value?")
	if err != nil {
		return nil, err
	}
	keys, err := r.collect(a[0])
	if err != nil {
		return nil, err
	}
	m := &Map{}
	for _, k := range keys {
		if err := m.set(k, orDefault(a[1], nil)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func namespaceOf(r *runtime, args []Value, named *Map) (Value, error) {
	attrs, err := dictOf(r, args, named)
	if err != nil {
		return nil, err
	}
	ns := &namespace{attrs: &Map{}}
	for i, k := range attrs.(*Map).keys {
		id, ok := k.(string)
		if !ok {
			return nil, failf(Unsupported, "a namespace attribute that is not a name")
		}
		if err := ns.set(id, attrs.(*Map).vals[i]); err != nil {
			return nil, err
		}
	}
	return ns, nil
}

// cycler hands out its items in turn.
type cycler struct {
	items []Value
	next  int
}

func cyclerOf(_ *runtime, args []Value, named *Map) (Value, error) {
	if len(args) == 0 || named.Len() > 0 {
		return nil, typeErrorf("cycler takes at least one item")
	}
	return &cycler{items: args}, nil
}

func (c *cycler) attr(id string) (Value, bool, error) {
	switch id {
	case "items":
		return &Tuple{c.items}, true, nil
	case "pos":
		return int64(c.next), true, nil
	case "current":
		return c.items[c.next], true, nil
	case "next":
		return &function{id, func(_ *runtime, args []Value, named *Map) (Value, error) {
			v := c.items[c.next]
			c.next = (c.next + 1) % len(c.items)
			return v, noArguments(id, args, named)
		}}, true, nil
	case "reset":
		return &function{id, func(_ *runtime, args []Value, named *Map) (Value, error) {
			c.next = 0
			return nil, noArguments(id, args, named)
		}}, true, nil
	}
	return nil, false, nil
}

// joinerOf returns a function that returns "" on its first call and the separator on every other.
func joinerOf(_ *runtime, args []Value, named *Map) (Value, error) {
	a, err := bind("joiner", args, named, "sep?")
	if err != nil {
		return nil, err
	}
	used := false
	return &function{"joiner", func(_ *runtime, args []Value, named *Map) (Value, error) {
		if !used {
			used = true
			return "", noArguments("joiner", args, named)
		}
		return orDefault(a[0], ", "), noArguments("joiner", args, named)
	}}, nil
}
