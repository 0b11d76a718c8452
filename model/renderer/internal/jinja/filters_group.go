package jinja

import (
	"strconv"
	"strings"
)

// attributeGetter returns the function that reads a filter's attribute argument from an item:
// "a.b.0" reads item by item, None returns the item itself. post, if not nil, maps the result.
func attributeGetter(r *runtime, attribute Value, post func(Value) Value) func(Value) Value {
	return attributeGetterOr(r, attribute, nil, post)
}

// attributeGetterOr is attributeGetter with a fallback, unless it is None, for every undefined
// value on the way.
func attributeGetterOr(r *runtime, attribute, fallback Value, post func(Value) Value) func(Value) Value {
	var parts []Value
	if s, ok := attribute.(string); ok {
		for _, part := range strings.Split(s, ".") {
			if n, err := strconv.ParseInt(part, 10, 64); err == nil && n >= 0 && part[0] != '+' && part[0] != '-' {
				parts = append(parts, n)
			} else {
				parts = append(parts, part)
			}
		}
	} else if attribute != nil {
		parts = []Value{attribute}
	}
	return func(v Value) Value {
		for _, part := range parts {
			r.spend(1)
			v = r.getitem(v, part)
			if _, absent := v.(*undefined); absent && fallback != nil {
				v = fallback
			}
		}
		if post == nil {
			return v
		}
		return post(v)
	}
}

// foldCase makes text comparable without regard to case.
func (r *runtime) foldCase(v Value) Value {
	if s, ok := textOf(v); ok {
		r.changeCase("lower", s)
		return lower(s)
	}
	return v
}

func batchFilter(r *runtime, v Value, a []Value) Value {
	size := wantInt("batch", a[0])
	items := r.collect(v)
	if size < 1 {
		panic(failf(Unsupported, "batch of fewer than one item"))
	}
	fill := orDefault(a[1], nil)
	return r.lazily(func() (Value, bool) {
		if len(items) == 0 {
			return nil, false
		}
		n := min(int64(len(items)), size)
		r.room(16 * int(n))
		group := append([]Value{}, items[:n]...)
		items = items[n:]
		if missing := size - n; fill != nil && missing > 0 {
			more := r.repeat(&List{[]Value{fill}}, missing)
			group = append(group, more.(*List).Items...)
		}
		return &List{group}, true
	})
}

func sliceFilter(r *runtime, v Value, a []Value) Value {
	slices := wantInt("slice", a[0])
	items := r.collect(v)
	if slices < 1 || slices > maxRange {
		panic(failf(Unsupported, "slice into %d parts", slices))
	}
	per, extra := int64(len(items))/slices, int64(len(items))%slices
	i := int64(0)
	return r.lazily(func() (Value, bool) {
		if i == slices {
			return nil, false
		}
		n := per
		if i < extra {
			n++
		}
		r.room(16 * int(n))
		part := append([]Value{}, items[:n]...)
		items = items[n:]
		if fill := orDefault(a[1], nil); fill != nil && i >= extra {
			part = append(part, fill)
		}
		i++
		return &List{part}, true
	})
}

// groupByFilter sorts by an attribute and returns (key, items) pairs.
func groupByFilter(r *runtime, v Value, a []Value) Value {
	items := r.collect(v)
	fallback := orDefault(a[1], nil)
	shown := attributeGetterOr(r, a[0], fallback, nil)
	key := shown
	if !truth(orDefault(a[2], false)) {
		key = attributeGetterOr(r, a[0], fallback, r.foldCase)
	}
	items = sorted(r, items, key, false)
	out := &List{}
	var last Value
	for i, item := range items {
		k := key(item)
		same := false
		if i > 0 {
			same = r.equal(k, last, 0)
		}
		if !same {
			first := shown(item)
			out.Items = append(out.Items, &Tuple{[]Value{first, &List{}}})
			last = k
		}
		group := out.Items[len(out.Items)-1].(*Tuple).Items[1].(*List)
		group.Items = append(group.Items, item)
	}
	return out
}
