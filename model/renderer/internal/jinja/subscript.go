package jinja

import "unicode/utf8"

// getattr returns v.name: an attribute, such as a method, comes before an item.
func (r *runtime) getattr(v Value, id string) Value {
	r.room(len(id))
	if found, ok := r.attr(v, id); ok {
		return found
	}
	if u, ok := v.(*undefined); ok {
		panic(u.fail())
	}
	if found, ok := r.item(v, id); ok {
		return found
	}
	return r.noAttribute(v, id)
}

// getitem returns v[key]: an item comes before an attribute.
func (r *runtime) getitem(v, key Value) Value {
	r.key(key)
	if u, ok := v.(*undefined); ok {
		panic(u.fail())
	}
	if found, ok := r.item(v, key); ok {
		return found
	}
	if id, ok := textOf(key); ok {
		if found, ok := r.attr(v, id); ok {
			return found
		}
		return r.noAttribute(v, id)
	}
	shown := typeName(key)
	_ = attempt(func() { shown = r.repr(key) }) // the type is enough for a key without a text
	return undefinedf("%s object has no element %s", typeName(v), shown)
}

func (r *runtime) noAttribute(v Value, id string) *undefined {
	r.spell(len(id) + 16)
	if v == nil {
		return undefinedf("'None' has no attribute '%s'", id)
	}
	return undefinedf("'%s object' has no attribute '%s'", typeName(v), id)
}

// item returns Python's v[key]. ok is false if Python raises an error that Jinja treats as a
// missing item.
func (r *runtime) item(v, key Value) (found Value, ok bool) {
	if m, isMap := v.(*Map); isMap {
		if text, isText := key.(string); isText {
			return m.Get(text)
		}
		if e := attempt(func() { found, ok = m.lookup(key) }); e != nil && e.Kind != Type {
			panic(e) // an unhashable key, which is an error of type, is a missing one
		}
		return found, ok
	}
	if _, isLoop := v.(*loop); isLoop {
		return nil, false
	}
	i, isIndex := integer(key)
	if !isIndex {
		return nil, false
	}
	n, sized := size(v)
	if !sized {
		return nil, false
	}
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return nil, false
	}
	switch x := v.(type) {
	case string:
		r.read(x)
		return runeAt(x, i), true
	case *List:
		return x.Items[i], true
	case *Tuple:
		return x.Items[i], true
	case *interval:
		return x.start + i*x.step, true
	case markup:
		panic(failf(Unsupported, "indexing text marked safe"))
	}
	return nil, false
}

func runeAt(s string, i int64) string {
	for ; i > 0; i-- {
		_, n := utf8.DecodeRuneInString(s)
		s = s[n:]
	}
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

func (ev *evaluator) evalSlice(n *slice, f *frame) Value {
	v := ev.eval(n.object, f)
	var bounds [3]*int64
	for i, e := range []expr{n.start, n.stop, n.step} {
		if e == nil {
			continue
		}
		b := ev.eval(e, f)
		if b == nil {
			continue
		}
		x, ok := integer(b)
		if !ok {
			panic(typeErrorf("slice indices must be integers or None, not %s", typeName(b)))
		}
		bounds[i] = &x
	}
	return ev.slice(v, bounds)
}

func (r *runtime) slice(v Value, bounds [3]*int64) Value {
	switch x := v.(type) {
	case *undefined:
		panic(x.fail())
	case *List:
		return &List{r.sliceItems(x.Items, bounds)}
	case *Tuple:
		return &Tuple{r.sliceItems(x.Items, bounds)}
	case string:
		return r.sliceText(x, bounds)
	case *interval:
		start, step, count := sliceRange(x.length(), bounds)
		first := x.start + start*x.step
		return &interval{first, first + count*step*x.step, step * x.step}
	case markup:
		panic(failf(Unsupported, "slicing text marked safe"))
	case *Map:
		panic(typeErrorf("unhashable type: 'slice'"))
	}
	panic(typeErrorf("'%s' object is not subscriptable", typeName(v)))
}

// sliceRange resolves a Python slice over n items: the first index, the step and the number of
// items.
func sliceRange(n int64, bounds [3]*int64) (start, step, count int64) {
	step = 1
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		panic(typeErrorf("slice step cannot be zero"))
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(b *int64, missing int64) int64 {
		if b == nil {
			return missing
		}
		i := *b
		if i < 0 {
			i += n
		}
		return max(low, min(i, high))
	}
	var stop int64
	if step > 0 {
		start, stop = bound(bounds[0], low), bound(bounds[1], high)
		if stop > start {
			count = (stop-start-1)/step + 1
		}
		return start, step, count
	}
	start, stop = bound(bounds[0], high), bound(bounds[1], low)
	if start > stop {
		count = int64(uint64(start-stop-1)/abs(step)) + 1
	}
	return start, step, count
}

func (r *runtime) sliceItems(items []Value, bounds [3]*int64) []Value {
	start, step, count := sliceRange(int64(len(items)), bounds)
	if step == 1 {
		return items[start : start+count : start+count]
	}
	out := make([]Value, count)
	for i := range out {
		out[i] = items[start+int64(i)*step]
	}
	r.room(16 * len(out))
	return out
}

func (r *runtime) sliceText(s string, bounds [3]*int64) Value {
	r.spell(len(s))
	runes := []rune(s)
	start, step, count := sliceRange(int64(len(runes)), bounds)
	if step == 1 {
		return string(runes[start : start+count])
	}
	out := make([]rune, count)
	for i := range out {
		out[i] = runes[start+int64(i)*step]
	}
	return string(out)
}
