package jinja

import "unicode/utf8"

// iterate is Python's iter().
func (r *runtime) iterate(v Value) (*iterator, error) {
	switch x := v.(type) {
	case *undefined:
		return r.overItems(nil), nil
	case *List:
		return r.overItems(x.Items), nil
	case *Tuple:
		return r.overItems(x.Items), nil
	case *Map:
		return r.overItems(x.keys), nil
	case *view:
		return r.overItems(x.items()), nil
	case *iterator:
		return x, nil
	case string:
		return r.overRunes(x), nil
	case markup:
		return nil, failf(Unsupported, "iterating text marked safe")
	case *interval:
		i := x.start
		left := x.length()
		return r.lazily(func() (Value, bool, error) {
			if left == 0 {
				return nil, false, nil
			}
			v := i
			i, left = i+x.step, left-1
			return v, true, nil
		}), nil
	case *loop:
		return nil, failf(Unsupported, "iterating the loop variable")
	}
	return nil, typeErrorf("'%s' object is not iterable", typeName(v))
}

// lazily returns an iterator that spends one step for each item.
func (r *runtime) lazily(next func() (Value, bool, error)) *iterator {
	return &iterator{next: func() (Value, bool, error) {
		if err := r.spend(0); err != nil {
			return nil, false, err
		}
		return next()
	}}
}

func (r *runtime) overItems(items []Value) *iterator {
	return r.lazily(func() (Value, bool, error) {
		if len(items) == 0 {
			return nil, false, nil
		}
		v := items[0]
		items = items[1:]
		return v, true, nil
	})
}

func (r *runtime) overRunes(s string) *iterator {
	return r.lazily(func() (Value, bool, error) {
		if s == "" {
			return nil, false, nil
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true, nil
	})
}

// collect returns the items of v, as Python's list() does. The caller may keep the slice but not
// change it.
func (r *runtime) collect(v Value) ([]Value, error) {
	switch x := v.(type) {
	case *List:
		return x.Items, r.spend(len(x.Items) / 64)
	case *Tuple:
		return x.Items, r.spend(len(x.Items) / 64)
	}
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	items := []Value{}
	for {
		item, ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return items, nil
		}
		items = append(items, item)
		if len(items)*16 > r.limits.Size {
			return nil, tooLarge(r.limits.Size / 16)
		}
	}
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
func length(v Value) (int64, error) {
	if s, ok := textOf(v); ok {
		return int64(utf8.RuneCountInString(s)), nil
	}
	switch x := v.(type) {
	case *undefined:
		return 0, nil
	case *List:
		return int64(len(x.Items)), nil
	case *Tuple:
		return int64(len(x.Items)), nil
	case *Map:
		return int64(x.Len()), nil
	case *view:
		return int64(x.of.Len()), nil
	case *interval:
		return x.length(), nil
	case *loop:
		return x.length()
	}
	return 0, typeErrorf("object of type '%s' has no len()", typeName(v))
}
