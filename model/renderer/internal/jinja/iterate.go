package jinja

import "unicode/utf8"

// iterate is Python's iter().
func (r *runtime) iterate(v Value) *iterator {
	switch x := v.(type) {
	case *undefined:
		return r.overItems(nil)
	case *List:
		return r.overItems(x.Items)
	case *Tuple:
		return r.overItems(x.Items)
	case *Map:
		return r.overItems(x.keys)
	case *view:
		if x.kind == "items" {
			r.spend(x.of.Len())
		}
		return r.overItems(x.items())
	case *iterator:
		return x
	case string:
		return r.overRunes(x)
	case markup:
		panic(failf(Unsupported, "iterating text marked safe"))
	case *interval:
		i := x.start
		left := x.length()
		return r.lazily(func() (Value, bool) {
			if left == 0 {
				return nil, false
			}
			v := i
			i, left = i+x.step, left-1
			return v, true
		})
	case *loop:
		panic(failf(Unsupported, "iterating the loop variable"))
	}
	panic(typeErrorf("'%s' object is not iterable", typeName(v)))
}

// lazily returns an iterator that spends one step for each item.
func (r *runtime) lazily(next func() (Value, bool)) *iterator {
	return &iterator{next: func() (Value, bool) {
		r.spend(0)
		return next()
	}}
}

func (r *runtime) overItems(items []Value) *iterator {
	return r.lazily(func() (Value, bool) {
		if len(items) == 0 {
			return nil, false
		}
		v := items[0]
		items = items[1:]
		return v, true
	})
}

func (r *runtime) overRunes(s string) *iterator {
	return r.lazily(func() (Value, bool) {
		if s == "" {
			return nil, false
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true
	})
}

// collect returns the items of v, as Python's list() does. The caller may keep the slice but not
// change it.
func (r *runtime) collect(v Value) []Value {
	switch x := v.(type) {
	case *List:
		r.spend(len(x.Items) / 64)
		return x.Items
	case *Tuple:
		r.spend(len(x.Items) / 64)
		return x.Items
	}
	items := []Value{}
	for item := range r.iterate(v).all {
		if items = append(items, item); len(items)*16 > r.limits.Size {
			panic(tooLarge(r.limits.Size / 16))
		}
	}
	return items
}

func (v *view) items() []Value {
	switch v.kind {
	case "keys":
		return v.of.keys
	case "values":
		return v.of.vals
	}
	items := make([]Value, v.of.Len())
	for i, k := range v.of.keys {
		items[i] = &Tuple{[]Value{k, v.of.vals[i]}}
	}
	return items
}

// length is Python's len().
func length(v Value) int64 {
	if l, ok := v.(*loop); ok {
		return l.length()
	}
	n, ok := size(v)
	if !ok {
		panic(typeErrorf("object of type '%s' has no len()", typeName(v)))
	}
	return n
}

// size returns the length of a value that knows it without being read.
func size(v Value) (n int64, ok bool) {
	if s, ok := textOf(v); ok {
		return int64(utf8.RuneCountInString(s)), true
	}
	switch x := v.(type) {
	case *undefined:
		return 0, true
	case *List:
		return int64(len(x.Items)), true
	case *Tuple:
		return int64(len(x.Items)), true
	case *Map:
		return int64(x.Len()), true
	case *view:
		return int64(x.of.Len()), true
	case *interval:
		return x.length(), true
	}
	return 0, false
}
