package jinja

import (
	"strconv"
	"strings"
)

// attributeGetter returns the function that reads a filter's attribute argument from an item:
// "a.b.0" reads item by item, None returns the item itself. post, if not nil, maps the result.
func attributeGetter(r *runtime, attribute Value, post func(Value) (Value, error)) func(Value) (Value, error) {
	return attributeGetterOr(r, attribute, nil, post)
}

// attributeGetterOr is attributeGetter with a fallback, unless it is None, for every undefined
// value on the way.
func attributeGetterOr(r *runtime, attribute, fallback Value, post func(Value) (Value, error)) func(Value) (Value, error) {
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
	return func(v Value) (Value, error) {
		for _, part := range parts {
			var err error
			if v, err = r.getitem(v, part); err != nil {
				return nil, err
			}
			if _, absent := v.(*undefined); absent && fallback != nil {
				v = fallback
			}
		}
		if post == nil {
			return v, nil
		}
		return post(v)
	}
}

// foldCase makes text comparable without regard to case.
func foldCase(v Value) (Value, error) {
	if s, ok := textOf(v); ok {
		return lower(s), nil
	}
	return v, nil
}

func batchFilter(r *runtime, v Value, a []Value) (Value, error) {
	size, err := wantInt("batch", a[0])
	if err != nil {
		return nil, err
	}
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	if size < 1 {
		return nil, failf(Unsupported, "batch of fewer than one item")
	}
	fill := orDefault(a[1], nil)
	return r.lazily(func() (Value, bool, error) {
		if len(items) == 0 {
			return nil, false, nil
		}
		n := min(int64(len(items)), size)
		group := append([]Value{}, items[:n]...)
		items = items[n:]
		if missing := size - n; fill != nil && missing > 0 {
			more, err := r.repeat(&List{[]Value{fill}}, missing)
			if err != nil {
				return nil, false, err
			}
			group = append(group, more.(*List).Items...)
		}
		return &List{group}, true, nil
	}), nil
}

func sliceFilter(r *runtime, v Value, a []Value) (Value, error) {
	slices, err := wantInt("slice", a[0])
	if err != nil {
		return nil, err
	}
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	if slices < 1 || slices > maxRange {
		return nil, failf(Unsupported, "slice into %d parts", slices)
	}
	per, extra := int64(len(items))/slices, int64(len(items))%slices
	i := int64(0)
	return r.lazily(func() (Value, bool, error) {
		if i == slices {
			return nil, false, nil
		}
		n := per
		if i < extra {
			n++
		}
		part := append([]Value{}, items[:n]...)
		items = items[n:]
		if fill := orDefault(a[1], nil); fill != nil && i >= extra {
			part = append(part, fill)
		}
		i++
		return &List{part}, true, nil
	}), nil
}

// groupByFilter sorts by an attribute and returns (key, items) pairs.
func groupByFilter(r *runtime, v Value, a []Value) (Value, error) {
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	fallback := orDefault(a[1], nil)
	shown := attributeGetterOr(r, a[0], fallback, nil)
	key := shown
	if !truth(orDefault(a[2], false)) {
		key = attributeGetterOr(r, a[0], fallback, foldCase)
	}
	if items, err = sorted(r, items, key, false); err != nil {
		return nil, err
	}
	out := &List{}
	var last Value
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		same := false
		if i > 0 {
			if same, err = r.equal(k, last, 0); err != nil {
				return nil, err
			}
		}
		if !same {
			first, err := shown(item)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, &Tuple{[]Value{first, &List{}}})
			last = k
		}
		group := out.Items[len(out.Items)-1].(*Tuple).Items[1].(*List)
		group.Items = append(group.Items, item)
	}
	return out, nil
}
