package jinja

import (
	"sort"
	"strings"
)

// sequenceFilters reorder, cut and combine sequences.
var sequenceFilters = map[string]filterSpec{
	"length": {apply: func(_ *runtime, v Value, _ []Value) Value { return length(v) }},
	"list": {apply: func(r *runtime, v Value, _ []Value) Value {
		return &List{r.collect(v)}
	}},
	"first":    {apply: firstFilter},
	"last":     {apply: lastFilter},
	"reverse":  {apply: reverseFilter},
	"items":    {apply: itemsFilter},
	"join":     {params: []string{"d?", "attribute?"}, apply: joinFilter},
	"sort":     {params: []string{"reverse?", "case_sensitive?", "attribute?"}, apply: sortFilter},
	"dictsort": {params: []string{"case_sensitive?", "by?", "reverse?"}, apply: dictSortFilter},
	"batch":    {params: []string{"linecount", "fill_with?"}, apply: batchFilter},
	"slice":    {params: []string{"slices", "fill_with?"}, apply: sliceFilter},
	"unique":   {params: []string{"case_sensitive?", "attribute?"}, apply: uniqueFilter},
	"groupby":  {params: []string{"attribute", "default?", "case_sensitive?"}, apply: groupByFilter},
}

func firstFilter(r *runtime, v Value, _ []Value) Value {
	it := r.iterate(v)
	first, ok := it.next()
	if ok {
		return first
	}
	return undefinedf("No first item, sequence was empty.")
}

func lastFilter(r *runtime, v Value, _ []Value) Value {
	if _, lazy := v.(*iterator); lazy {
		panic(typeErrorf("'generator' object is not reversible"))
	}
	items := r.collect(v)
	if len(items) == 0 {
		return undefinedf("No last item, sequence was empty.")
	}
	return items[len(items)-1]
}

func reverseFilter(r *runtime, v Value, _ []Value) Value {
	if s, ok := v.(string); ok {
		runes := []rune(s)
		for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
			runes[i], runes[j] = runes[j], runes[i]
		}
		r.spell(len(s))
		return string(runes)
	}
	items := r.collect(v)
	r.room(16 * len(items))
	turned := make([]Value, len(items))
	for i, item := range items {
		turned[len(items)-1-i] = item
	}
	if _, lazy := v.(*iterator); lazy {
		return &List{turned}
	}
	return r.overItems(turned)
}

func itemsFilter(r *runtime, v Value, _ []Value) Value {
	var inner *iterator
	return r.lazily(func() (Value, bool) {
		if inner == nil {
			switch x := v.(type) {
			case *undefined:
				inner = r.overItems(nil)
			case *Map:
				inner = r.iterate(&view{x, "items"})
			default:
				panic(typeErrorf("can only get item pairs from a mapping"))
			}
		}
		return inner.next()
	})
}

func joinFilter(r *runtime, v Value, a []Value) Value {
	d := r.str(orDefault(a[0], ""))
	key := attributeGetter(r, orDefault(a[1], nil), nil)
	it := r.iterate(v)
	w := &limitedText{limit: r.limits.Size}
	for first := true; ; first = false {
		item, ok := it.next()
		if !ok {
			r.spend(w.Len() / 64)
			return w.String()
		}
		item = key(item)
		s := r.str(item)
		if !first {
			s = d + s
		}
		w.add(s)
	}
}

// sorted sorts items stably by their keys.
func sorted(r *runtime, items []Value, key func(Value) Value, reverse bool) []Value {
	type keyed struct{ key, item Value }
	list := make([]keyed, len(items))
	for i, item := range items {
		k := key(item)
		list[i] = keyed{k, item}
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

func sortFilter(r *runtime, v Value, a []Value) Value {
	items := r.collect(v)
	post := r.foldCase
	if truth(orDefault(a[1], false)) {
		post = nil
	}
	attributes := []Value{orDefault(a[2], nil)}
	if list, ok := attributes[0].(string); ok {
		attributes = r.texts(strings.Split(list, ",")).Items
	}
	items = sorted(r, items, func(item Value) Value {
		keys := &List{}
		for _, attribute := range attributes {
			k := attributeGetter(r, attribute, post)(item)
			keys.Items = append(keys.Items, k)
		}
		return keys
	}, truth(orDefault(a[0], false)))
	return &List{items}
}

func dictSortFilter(r *runtime, v Value, a []Value) Value {
	m, ok := v.(*Map)
	if !ok {
		if u, ok := v.(*undefined); ok {
			panic(u.fail())
		}
		panic(typeErrorf("dictsort wants a mapping, not %s", typeName(v)))
	}
	by, pos := orDefault(a[1], "key"), 0
	if by == "value" {
		pos = 1
	} else if by != "key" {
		panic(typeErrorf(`dictsort can only sort by "key" or "value"`))
	}
	items := sorted(r, r.collect(&view{m, "items"}), func(item Value) Value {
		k := item.(*Tuple).Items[pos]
		if truth(orDefault(a[0], false)) {
			return k
		}
		return r.foldCase(k)
	}, truth(orDefault(a[2], false)))
	return &List{items}
}

func uniqueFilter(r *runtime, v Value, a []Value) Value {
	post := r.foldCase
	if truth(orDefault(a[0], false)) {
		post = nil
	}
	key := attributeGetter(r, orDefault(a[1], nil), post)
	var it *iterator
	seen := &Map{}
	return r.lazily(func() (Value, bool) {
		for {
			if it == nil {
				it = r.iterate(v)
			}
			item, ok := it.next()
			if !ok {
				return nil, false
			}
			k := key(item)
			r.key(k)
			if _, known := seen.lookup(k); !known {
				seen.set(k, nil)
				return item, true
			}
		}
	})
}
