package jinja

import (
	"strings"
	"unicode/utf8"
)

// builtin is a filter, a test, a function or a method of a value. params are the names of its parameters:
// one that ends in '?' is optional, those after "/" have no names for the caller, and "*" leaves the
// arguments as they come.
type builtin struct {
	params string
	do     func(c *input) Value
}

// input is what a call gives a builtin.
type input struct {
	r     *runtime
	name  string  // as the template calls the builtin
	self  Value   // what a filter or test gets, or whose method is called
	args  []Value // one for each parameter; missing{} stands for an absent one
	named *Map    // keyword arguments
}

// apply calls a builtin.
func (r *runtime) apply(id string, b builtin, self Value, args []Value, named *Map) Value {
	r.read(self)
	r.read(args...)
	if b.params != "*" {
		args = bind(id, args, named, b.params)
	}
	return b.do(&input{r, id, self, args, named})
}

// bind assigns the arguments of a call to parameters.
func bind(callee string, args []Value, named *Map, list string) []Value {
	list, positional := strings.CutPrefix(list, "/")
	params := strings.Fields(list)
	switch {
	case len(params) == 0 && len(args)+named.Len() > 0:
		panic(typeErrorf("%s takes no arguments", callee))
	case positional && named.Len() > 0:
		panic(typeErrorf("%s takes no keyword arguments", callee))
	case len(args) > len(params):
		panic(typeErrorf("%s takes at most %d arguments, got %d", callee, len(params), len(args)))
	}
	bound := make([]Value, len(params))
	used := 0
	for i, param := range params {
		id, optional := strings.CutSuffix(param, "?")
		v, given := named.Get(id)
		switch {
		case given && i < len(args):
			panic(typeErrorf("%s got multiple values for argument '%s'", callee, id))
		case given:
			bound[i] = v
			used++
		case i < len(args):
			bound[i] = args[i]
		case optional:
			bound[i] = missing{}
		default:
			panic(typeErrorf("%s is missing the argument '%s'", callee, id))
		}
	}
	if used < named.Len() {
		panic(typeErrorf("%s got an unexpected keyword argument among %v", callee, named.keys))
	}
	return bound
}

func given(v Value) bool {
	_, absent := v.(missing)
	return !absent
}

// or returns an argument, or d where it is absent.
func (c *input) or(i int, d Value) Value {
	if given(c.args[i]) {
		return c.args[i]
	}
	return d
}

// flag returns the truth of an argument, which is false where it is absent.
func (c *input) flag(i int) bool { return truth(c.or(i, false)) }

// text returns an argument that must be a plain string, or the default where it is absent.
func (c *input) text(i int, d ...string) string {
	if len(d) > 0 && !given(c.args[i]) {
		return d[0]
	}
	return c.wantText(c.args[i])
}

// int returns an argument that must be an integer or a boolean, or the default where it is absent.
func (c *input) int(i int, d ...int64) int64 {
	if len(d) > 0 && !given(c.args[i]) {
		return d[0]
	}
	return wantInt(c.name, c.args[i])
}

// wantText returns the text of a value; any value but a plain string is an error.
func (c *input) wantText(v Value) string { return wantText(c.name, v) }

func wantText(callee string, v Value) string {
	switch x := v.(type) {
	case string:
		return x
	case markup:
		panic(failf(Unsupported, "%s of text marked safe", callee))
	case *undefined:
		panic(x.fail())
	}
	panic(typeErrorf("%s wants a string, not %s", callee, typeName(v)))
}

// wantInt returns the number of a value; any value but an integer or a boolean is an error.
func wantInt(callee string, v Value) int64 {
	if n, ok := integer(v); ok {
		return n
	}
	if u, ok := v.(*undefined); ok {
		panic(u.fail())
	}
	panic(typeErrorf("%s wants an integer, not %s", callee, typeName(v)))
}

// str returns str() of the input. Text marked safe is an error, because the result would have to stay
// marked.
func (c *input) str() string {
	if _, marked := c.self.(markup); marked {
		panic(failf(Unsupported, "%s of text marked safe", c.name))
	}
	return c.r.str(c.self)
}

// textWriter returns an empty text within the limits.
func (r *runtime) textWriter() *limitedText { return &limitedText{limit: r.limits.Size} }

// texts returns a list of texts.
func (c *input) texts(list []string) *List {
	c.r.room(16 * len(list))
	c.r.spend(3 * len(list))
	items := make([]Value, len(list))
	for i, s := range list {
		items[i] = s
	}
	return &List{items}
}

// window returns the characters [start, end) of the input, both bounds optional as in Python, and the
// index of the first. start and end are the arguments 1 and 2. inside is false if start lies beyond the end.
func (c *input) window() (cut string, first int64, inside bool) {
	s := c.str()
	if !given(c.args[1]) && !given(c.args[2]) {
		return s, 0, true
	}
	var bounds [3]*int64
	for i := range 2 {
		if v := c.or(i+1, nil); v != nil {
			n := wantInt("a bound", v)
			bounds[i] = &n
		}
	}
	n := int64(utf8.RuneCountInString(s))
	first, _, _ = sliceRange(n, bounds)
	inside = bounds[0] == nil || *bounds[0] <= n
	if bounds[1] != nil && inside {
		stop := *bounds[1]
		if stop < 0 {
			stop = max(0, stop+n)
		}
		inside = first <= stop
	}
	return c.r.sliceText(s, bounds).(string), first, inside
}
