package jinja

import (
	"slices"
	"sort"
	"strings"
)

// sequenceFilters reorder, cut and combine sequences.
var sequenceFilters = map[string]builtin{
	"length": {"", func(c *input) Value { return length(c.self) }},
	"list":   {"", func(c *input) Value { return &List{c.r.collect(c.self)} }},
	"first": {"", func(c *input) Value {
		for item := range c.r.iterate(c.self).all {
			return item
		}
		return undefinedf("No first item, sequence was empty.")
	}},
	"last": {"", func(c *input) Value {
		if _, lazy := c.self.(*iterator); lazy {
			panic(typeErrorf("'generator' object is not reversible"))
		}
		items := c.r.collect(c.self)
		if len(items) == 0 {
			return undefinedf("No last item, sequence was empty.")
		}
		return items[len(items)-1]
	}},
	"reverse":  {"", reverseFilter},
	"items":    {"", itemsFilter},
	"join":     {"d? attribute?", joinFilter},
	"sort":     {"reverse? case_sensitive? attribute?", sortFilter},
	"dictsort": {"case_sensitive? by? reverse?", dictSortFilter},
	"batch":    {"linecount fill_with?", batchFilter},
	"slice":    {"slices fill_with?", sliceFilter},
	"unique":   {"case_sensitive? attribute?", uniqueFilter},
	"groupby":  {"attribute default? case_sensitive?", groupByFilter},
}

func reverseFilter(c *input) Value {
	if s, ok := c.self.(string); ok {
		runes := []rune(s)
		slices.Reverse(runes)
		c.r.spell(len(s))
		return string(runes)
	}
	items := c.r.collect(c.self)
	c.r.room(16 * len(items))
	turned := slices.Clone(items)
	slices.Reverse(turned)
	if _, lazy := c.self.(*iterator); lazy {
		return &List{turned}
	}
	return c.r.overItems(turned)
}

func itemsFilter(c *input) Value {
	var inner *iterator
	return c.r.lazily(func() (Value, bool) {
		if inner == nil {
			switch x := c.self.(type) {
			case *undefined:
				inner = c.r.overItems(nil)
			case *Map:
				inner = c.r.iterate(&view{x, "items"})
			default:
				panic(typeErrorf("can only get item pairs from a mapping"))
			}
		}
		return inner.next()
	})
}

func joinFilter(c *input) Value {
	d := c.r.str(c.or(0, ""))
	key := getter(c.r, c.or(1, nil), nil)
	return c.join(c.self, d, func(_ int, item Value) string { return c.r.str(key(item)) })
}

// join writes the texts of items with a separator between them.
func (c *input) join(items Value, separator string, text func(i int, item Value) string) Value {
	w, i := c.r.textWriter(), 0
	for item := range c.r.iterate(items).all {
		part := text(i, item)
		if i++; i > 1 {
			part = separator + part
		}
		w.add(part)
	}
	c.r.spend(w.Len() / 64)
	return w.String()
}

// sorted sorts items stably by their keys.
func sorted(r *runtime, items []Value, key func(Value) Value, reverse bool) []Value {
	type keyed struct{ key, item Value }
	list := make([]keyed, len(items))
	for i, item := range items {
		list[i] = keyed{key(item), item}
	}
	sort.SliceStable(list, func(i, j int) bool {
		if reverse {
			i, j = j, i
		}
		return r.lessThan(list[i].key, list[j].key, 0)
	})
	out := make([]Value, len(list))
	for i, k := range list {
		out[i] = k.item
	}
	return out
}

func sortFilter(c *input) Value {
	items, attributes := c.r.collect(c.self), []Value{c.or(2, nil)}
	if list, ok := attributes[0].(string); ok {
		attributes = c.texts(strings.Split(list, ",")).Items
	}
	return &List{sorted(c.r, items, func(item Value) Value {
		keys := &List{}
		for _, attribute := range attributes {
			keys.Items = append(keys.Items, c.folded(1, getter(c.r, attribute, nil))(item))
		}
		return keys
	}, c.flag(0))}
}

func dictSortFilter(c *input) Value {
	m, ok := c.self.(*Map)
	if !ok {
		if u, ok := c.self.(*undefined); ok {
			panic(u.fail())
		}
		panic(typeErrorf("dictsort wants a mapping, not %s", typeName(c.self)))
	}
	by, pos := c.or(1, "key"), 0
	if by == "value" {
		pos = 1
	} else if by != "key" {
		panic(typeErrorf(`dictsort can only sort by "key" or "value"`))
	}
	key := c.folded(0, func(item Value) Value { return item.(*Tuple).Items[pos] })
	return &List{sorted(c.r, c.r.collect(&view{m, "items"}), key, c.flag(2))}
}

func uniqueFilter(c *input) Value {
	key := c.folded(0, getter(c.r, c.or(1, nil), nil))
	var it *iterator
	seen := &Map{}
	return c.r.lazily(func() (Value, bool) {
		if it == nil {
			it = c.r.iterate(c.self)
		}
		for item := range it.all {
			k := key(item)
			c.r.key(k)
			if _, known := seen.lookup(k); !known {
				seen.set(k, nil)
				return item, true
			}
		}
		return nil, false
	})
}
