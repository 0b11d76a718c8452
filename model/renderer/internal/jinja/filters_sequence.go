package jinja

import (
	"sort"
	"strings"
)

// sequenceFilters reorder, cut and combine sequences.
var sequenceFilters = map[string]filterSpec{
	"length": {apply: func(_ *runtime, v Value, _ []Value) (Value, error) { return length(v) }},
	"list": {apply: func(r *runtime, v Value, _ []Value) (Value, error) {
		items, err := r.collect(v)
		return &List{items}, err
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

func firstFilter(r *runtime, v Value, _ []Value) (Value, error) {
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	first, ok, err := it.next()
	if err != nil || ok {
		return first, err
	}
	return undefinedf("No first item, sequence was empty."), nil
}

func lastFilter(r *runtime, v Value, _ []Value) (Value, error) {
	if _, lazy := v.(*iterator); lazy {
		return nil, typeErrorf("'generator' object is not reversible")
	}
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return undefinedf("No last item, sequence was empty."), nil
	}
	return items[len(items)-1], nil
}

func reverseFilter(r *runtime, v Value, _ []Value) (Value, error) {
	if s, ok := v.(string); ok {
		runes := []rune(s)
		for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
			runes[i], runes[j] = runes[j], runes[i]
		}
		return string(runes), r.room(len(s))
	}
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	turned := make([]Value, len(items))
	for i, item := range items {
		turned[len(items)-1-i] = item
	}
	if _, lazy := v.(*iterator); lazy {
		return &List{turned}, nil
	}
	return r.overItems(turned), nil
}

func itemsFilter(r *runtime, v Value, _ []Value) (Value, error) {
	var inner *iterator
	return r.lazily(func() (Value, bool, error) {
		if inner == nil {
			switch x := v.(type) {
			case *undefined:
				inner = r.overItems(nil)
			case *Map:
				inner = r.overItems((&view{x, "items"}).items())
			default:
				return nil, false, typeErrorf("can only get item pairs from a mapping")
			}
		}
		return inner.next()
	}), nil
}

func joinFilter(r *runtime, v Value, a []Value) (Value, error) {
	d, err := r.str(orDefault(a[0], ""))
	if err != nil {
		return nil, err
	}
	key := attributeGetter(r, orDefault(a[1], nil), nil)
	it, err := r.iterate(v)
	if err != nil {
		return nil, err
	}
	w := &limitedText{limit: r.limits.Size}
	for first := true; ; first = false {
		item, ok, err := it.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return w.String(), r.spend(w.Len() / 64)
		}
		if item, err = key(item); err != nil {
			return nil, err
		}
		s, err := r.str(item)
		if err != nil {
			return nil, err
		}
		if !first {
			s = d + s
		}
		if err := w.add(s); err != nil {
			return nil, err
		}
	}
}

// sorted sorts items stably by their keys.
func sorted(r *runtime, items []Value, key func(Value) (Value, error), reverse bool) ([]Value, error) {
	type keyed struct{ key, item Value }
	list := make([]keyed, len(items))
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		list[i] = keyed{k, item}
	}
	var failed error
	sort.SliceStable(list, func(i, j int) bool {
		if reverse {
			i, j = j, i
		}
		less, err := r.lessThan(list[i].key, list[j].key, 0)
		if err != nil {
			failed = err
		}
		return less
	})
	out := make([]Value, len(list))
	for i, k := range list {
		out[i] = k.item
	}
	return out, failed
}

func sortFilter(r *runtime, v Value, a []Value) (Value, error) {
	items, err := r.collect(v)
	if err != nil {
		return nil, err
	}
	post := foldCase
	if truth(orDefault(a[1], false)) {
		post = nil
	}
	attributes := []Value{orDefault(a[2], nil)}
	if list, ok := attributes[0].(string); ok {
		attributes = texts(strings.Split(list, ",")).Items
	}
	items, err = sorted(r, items, func(item Value) (Value, error) {
		keys := &List{}
		for _, attribute := range attributes {
			k, err := attributeGetter(r, attribute, post)(item)
			if err != nil {
				return nil, err
			}
			keys.Items = append(keys.Items, k)
		}
		return keys, nil
	}, truth(orDefault(a[0], false)))
	return &List{items}, err
}

func dictSortFilter(r *runtime, v Value, a []Value) (Value, error) {
	m, ok := v.(*Map)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return nil, u.fail()
		}
		return nil, typeErrorf("dictsort wants a mapping, not %s", typeName(v))
	}
	by, pos := orDefault(a[1], "key"), 0
	if by == "value" {
		pos = 1
	} else if by != "key" {
		return nil, typeErrorf(`dictsort can only sort by "key" or "value"`)
	}
	items, err := sorted(r, (&view{m, "items"}).items(), func(item Value) (Value, error) {
		k := item.(*Tuple).Items[pos]
		if truth(orDefault(a[0], false)) {
			return k, nil
		}
		return foldCase(k)
	}, truth(orDefault(a[2], false)))
	return &List{items}, err
}

func uniqueFilter(r *runtime, v Value, a []Value) (Value, error) {
	post := foldCase
	if truth(orDefault(a[0], false)) {
		post = nil
	}
	key := attributeGetter(r, orDefault(a[1], nil), post)
	var it *iterator
	seen := &Map{}
	return r.lazily(func() (Value, bool, error) {
		for {
			if it == nil {
				var err error
				if it, err = r.iterate(v); err != nil {
					return nil, false, err
				}
			}
			item, ok, err := it.next()
			if err != nil || !ok {
				return nil, false, err
			}
			k, err := key(item)
			if err != nil {
				return nil, false, err
			}
			if _, known, err := seen.lookup(k); err != nil {
				return nil, false, err
			} else if !known {
				return item, true, seen.set(k, nil)
			}
		}
	}), nil
}
