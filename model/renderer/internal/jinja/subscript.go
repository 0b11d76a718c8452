package jinja

import "unicode/utf8"

// getattr returns v.name: an attribute, such as a method, comes before an item.
func (r *runtime) getattr(v Value, id string) (Value, error) {
	if found, ok, err := r.attr(v, id); ok || err != nil {
		return found, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.fail()
	}
	if found, ok, err := r.item(v, id); ok || err != nil {
		return found, err
	}
	return noAttribute(v, id), nil
}

// getitem returns v[key]: an item comes before an attribute.
func (r *runtime) getitem(v, key Value) (Value, error) {
	if u, ok := v.(*undefined); ok {
		return nil, u.fail()
	}
	if found, ok, err := r.item(v, key); ok || err != nil {
		return found, err
	}
	if id, ok := textOf(key); ok {
		if found, ok, err := r.attr(v, id); ok || err != nil {
			return found, err
		}
		return noAttribute(v, id), nil
	}
	shown, err := r.repr(key)
	if err != nil {
		shown = typeName(key)
	}
	return undefinedf("%s object has no element %s", typeName(v), shown), nil
}

func noAttribute(v Value, id string) *undefined {
	if v == nil {
		return undefinedf("'None' has no attribute '%s'", id)
	}
	return undefinedf("'%s object' has no attribute '%s'", typeName(v), id)
}

// item returns Python's v[key]. ok is false if Python raises an error that Jinja treats as a
// missing item.
func (r *runtime) item(v, key Value) (found Value, ok bool, err error) {
	if m, isMap := v.(*Map); isMap {
		found, ok, err = m.lookup(key)
		if isKind(err, Type) {
			err = nil // an unhashable key is a missing one
		}
		return found, ok, err
	}
	if _, isLoop := v.(*loop); isLoop {
		return nil, false, nil
	}
	i, isIndex := integer(key)
	if !isIndex {
		return nil, false, nil
	}
	n, err := length(v)
	if err != nil {
		return nil, false, nil
	}
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return nil, false, nil
	}
	switch x := v.(type) {
	case string:
		return runeAt(x, i), true, r.spend(len(x) / 64)
	case *List:
		return x.Items[i], true, nil
	case *Tuple:
		return x.Items[i], true, nil
	case *interval:
		return x.start + i*x.step, true, nil
	case markup:
		return nil, false, failf(Unsupported, "indexing text marked safe")
	}
	return nil, false, nil
}

func runeAt(s string, i int64) string {
	for ; i > 0; i-- {
		_, n := utf8.DecodeRuneInString(s)
		s = s[n:]
	}
	_, n := utf8.DecodeRuneInString(s)
	return s[:n]
}

func (ev *evaluator) evalSlice(n *slice, f *frame) (Value, error) {
	v, err := ev.eval(n.object, f)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int64
	for i, e := range []expr{n.start, n.stop, n.step} {
		if e == nil {
			continue
		}
		b, err := ev.eval(e, f)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		x, ok := integer(b)
		if !ok {
			return nil, typeErrorf("slice indices must be integers or None, not %s", typeName(b))
		}
		bounds[i] = &x
	}
	return ev.slice(v, bounds)
}

func (r *runtime) slice(v Value, bounds [3]*int64) (Value, error) {
	switch x := v.(type) {
	case *undefined:
		return nil, x.fail()
	case *List:
		items, err := r.sliceItems(x.Items, bounds)
		return &List{items}, err
	case *Tuple:
		items, err := r.sliceItems(x.Items, bounds)
		return &Tuple{items}, err
	case string:
		return r.sliceText(x, bounds)
	case *interval:
		start, step, count, err := sliceRange(x.length(), bounds)
		if err != nil {
			return nil, err
		}
		first := x.start + start*x.step
		return &interval{first, first + count*step*x.step, step * x.step}, nil
	case markup:
		return nil, failf(Unsupported, "slicing text marked safe")
	case *Map:
		return nil, typeErrorf("unhashable type: 'slice'")
	}
	return nil, typeErrorf("'%s' object is not subscriptable", typeName(v))
}

// sliceRange resolves a Python slice over n items: the first index, the step and the number of
// items.
func sliceRange(n int64, bounds [3]*int64) (start, step, count int64, err error) {
	step = 1
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return 0, 0, 0, typeErrorf("slice step cannot be zero")
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
		return start, step, count, nil
	}
	start, stop = bound(bounds[0], high), bound(bounds[1], low)
	if start > stop {
		count = int64(uint64(start-stop-1)/abs(step)) + 1
	}
	return start, step, count, nil
}

func (r *runtime) sliceItems(items []Value, bounds [3]*int64) ([]Value, error) {
	start, step, count, err := sliceRange(int64(len(items)), bounds)
	if err != nil {
		return nil, err
	}
	if step == 1 {
		return items[start : start+count : start+count], nil
	}
	out := make([]Value, count)
	for i := range out {
		out[i] = items[start+int64(i)*step]
	}
	return out, r.room(16 * len(out))
}

func (r *runtime) sliceText(s string, bounds [3]*int64) (Value, error) {
	if err := r.spend(len(s) / 64); err != nil {
		return nil, err
	}
	runes := []rune(s)
	start, step, count, err := sliceRange(int64(len(runes)), bounds)
	if err != nil {
		return nil, err
	}
	if step == 1 {
		return string(runes[start : start+count]), nil
	}
	out := make([]rune, count)
	for i := range out {
		out[i] = runes[start+int64(i)*step]
	}
	return string(out), nil
}
