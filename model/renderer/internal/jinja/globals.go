package jinja

// globals holds the names that every template can use. The functions keep no state.
var globals map[string]Value

func init() {
	globals = map[string]Value{}
	for id, b := range map[string]builtin{
		"range":     {"*", rangeOf},
		"dict":      {"*", func(c *input) Value { return dictOf(c) }},
		"namespace": {"*", namespaceOf},
		"cycler": {"*", func(c *input) Value {
			if len(c.args) == 0 || c.named.Len() > 0 {
				panic(typeErrorf("cycler takes at least one item"))
			}
			return &cycler{items: c.args}
		}},
		"joiner":          {"sep?", joinerOf},
		"raise_exception": {"message", func(c *input) Value { panic(&Error{Kind: Raised, Msg: c.r.str(c.args[0])}) }},
		"strftime_now":    {"format", func(c *input) Value { return strftime(c.r, c.text(0), c.r.clock()) }},
		"lipsum":          unsupported("lipsum, whose text is random"),
	} {
		globals[id] = &function{id, nil, b}
	}
}

// maxRange is the largest length of a range in Jinja's sandbox.
const maxRange = 100_000

func rangeOf(c *input) Value {
	if len(c.args) < 1 || len(c.args) > 3 || c.named.Len() > 0 {
		panic(typeErrorf("range takes 1 to 3 integers"))
	}
	var n [3]int64
	for i, a := range c.args {
		v := wantInt("range", a)
		if abs(v) > 1<<53 {
			panic(failf(Unsupported, "a range beyond 2^53"))
		}
		n[i] = v
	}
	rng := &interval{n[0], n[1], n[2]}
	switch len(c.args) {
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
func dictOf(c *input) *Map {
	m := &Map{}
	if len(c.args) > 1 {
		panic(typeErrorf("dict takes at most one positional argument"))
	}
	if len(c.args) == 1 {
		if from, ok := c.args[0].(*Map); ok {
			c.r.spend(4 * from.Len())
			m = from.clone()
		} else {
			for _, item := range c.r.collect(c.args[0]) {
				pair := c.r.unpack(item, 2)
				c.r.key(pair[0])
				m.set(pair[0], pair[1])
			}
		}
	}
	c.r.spend(4 * c.named.Len())
	for i, k := range c.named.keys {
		m.Set(k.(string), c.named.vals[i])
	}
	return m
}

func fromKeys(c *input) Value {
	m := &Map{}
	for _, k := range c.r.collect(c.args[0]) {
		c.r.key(k)
		m.set(k, c.or(1, nil))
	}
	return m
}

func namespaceOf(c *input) Value {
	attrs, ns := dictOf(c), &namespace{attrs: &Map{}}
	c.r.spend(8 * attrs.Len())
	for i, k := range attrs.keys {
		id, ok := k.(string)
		if !ok {
			panic(failf(Unsupported, "a namespace attribute that is not a name"))
		}
		ns.set(id, attrs.vals[i])
	}
	return ns
}

// cycler hands out its items in turn.
type cycler struct {
	items []Value
	next  int
}

var cyclerAttributes = map[string]func(c *cycler) Value{
	"items":   func(c *cycler) Value { return &Tuple{c.items} },
	"pos":     func(c *cycler) Value { return int64(c.next) },
	"current": func(c *cycler) Value { return c.items[c.next] },
}

var cyclerMethods = map[string]builtin{
	"next": {"", func(in *input) Value {
		c := in.self.(*cycler)
		v := c.items[c.next]
		c.next = (c.next + 1) % len(c.items)
		return v
	}},
	"reset": {"", func(in *input) Value {
		in.self.(*cycler).next = 0
		return nil
	}},
}

// joinerOf returns a function that returns "" on its first call and the separator on every other.
func joinerOf(c *input) Value {
	used := false
	return &function{"joiner", nil, builtin{"", func(*input) Value {
		if !used {
			used = true
			return ""
		}
		return c.or(0, ", ")
	}}}
}
