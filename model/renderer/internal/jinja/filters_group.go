package jinja

import (
	"strconv"
	"strings"
)

// getter returns the function that reads a filter's attribute argument from an item: "a.b.0" reads item
// by item, None returns the item itself. The fallback, unless it is None, stands for every undefined
// value on the way.
func getter(r *runtime, attribute, fallback Value) func(Value) Value {
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
		return v
	}
}

// folded makes the text that get returns comparable without regard to case, unless an argument says that
// case counts.
func (c *input) folded(sensitive int, get func(Value) Value) func(Value) Value {
	if c.flag(sensitive) {
		return get
	}
	return func(v Value) Value {
		v = get(v)
		if s, ok := textOf(v); ok {
			c.r.changeCase("lower", s)
			return lower(s)
		}
		return v
	}
}

func batchFilter(c *input) Value {
	size, items, fill := c.int(0), c.r.collect(c.self), c.or(1, nil)
	if size < 1 {
		panic(failf(Unsupported, "batch of fewer than one item"))
	}
	return c.r.lazily(func() (Value, bool) {
		if len(items) == 0 {
			return nil, false
		}
		n := min(int64(len(items)), size)
		c.r.room(16 * int(n))
		group := append([]Value{}, items[:n]...)
		items = items[n:]
		if missing := size - n; fill != nil && missing > 0 {
			more := c.r.repeat(&List{[]Value{fill}}, missing)
			group = append(group, more.(*List).Items...)
		}
		return &List{group}, true
	})
}

func sliceFilter(c *input) Value {
	slices, items, fill := c.int(0), c.r.collect(c.self), c.or(1, nil)
	if slices < 1 || slices > maxRange {
		panic(failf(Unsupported, "slice into %d parts", slices))
	}
	per, extra := int64(len(items))/slices, int64(len(items))%slices
	i := int64(0)
	return c.r.lazily(func() (Value, bool) {
		if i == slices {
			return nil, false
		}
		n := per
		if i < extra {
			n++
		}
		c.r.room(16 * int(n))
		part := append([]Value{}, items[:n]...)
		items = items[n:]
		if fill != nil && i >= extra {
			part = append(part, fill)
		}
		i++
		return &List{part}, true
	})
}

// groupByFilter sorts by an attribute and returns (key, items) pairs.
func groupByFilter(c *input) Value {
	shown := getter(c.r, c.args[0], c.or(1, nil))
	key := c.folded(2, shown)
	out := &List{}
	var last Value
	for i, item := range sorted(c.r, c.r.collect(c.self), key, false) {
		k := key(item)
		if i == 0 || !c.r.equal(k, last, 0) {
			out.Items = append(out.Items, &Tuple{[]Value{shown(item), &List{}}})
			last = k
		}
		group := out.Items[len(out.Items)-1].(*Tuple).Items[1].(*List)
		group.Items = append(group.Items, item)
	}
	return out
}
