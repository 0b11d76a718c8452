package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Map is Python's dict: keys in the order in which they were first set. The zero value is empty and
// ready to use.
type Map struct {
	index map[any]int
	keys  []Value
	vals  []Value
}

// Len returns the number of keys.
func (m *Map) Len() int { return len(m.keys) }

// Keys returns the keys in order; the caller must not change the slice.
func (m *Map) Keys() []Value { return m.keys }

// Get returns the value of a string key.
func (m *Map) Get(key string) (Value, bool) {
	i, ok := m.index[key]
	if !ok {
		return nil, false
	}
	return m.vals[i], true
}

// Set sets the value of a string key. A new key goes to the end.
func (m *Map) Set(key string, v Value) { m.setHashed(key, key, v) }

func (m *Map) setHashed(hash, key, v Value) {
	if i, ok := m.index[hash]; ok {
		m.vals[i] = v
		return
	}
	if m.index == nil {
		m.index = map[any]int{}
	}
	m.index[hash] = len(m.keys)
	m.keys, m.vals = append(m.keys, key), append(m.vals, v)
}

// set sets the value of any key; only hashable values are keys.
func (m *Map) set(key, v Value) {
	m.setHashed(hashOf(key, 0), key, v)
}

// lookup returns the value of any key.
func (m *Map) lookup(key Value) (v Value, ok bool) {
	hash := hashOf(key, 0)
	i, ok := m.index[hash]
	if !ok {
		return nil, false
	}
	return m.vals[i], true
}

// Without returns a copy without string keys.
func (m *Map) Without(keys ...string) *Map {
	c := m.clone()
	for _, key := range keys {
		c.remove(key)
	}
	return c
}

func (m *Map) clone() *Map {
	c := &Map{}
	for i, k := range m.keys {
		c.set(k, m.vals[i])
	}
	return c
}

// remove deletes a string key and returns its value. It serves argument lists, which are short.
func (m *Map) remove(key string) (Value, bool) {
	v, ok := m.Get(key)
	if !ok {
		return nil, false
	}
	rest := Map{}
	for i, k := range m.keys {
		if k != key {
			rest.Set(k.(string), m.vals[i])
		}
	}
	*m = rest
	return v, true
}

type (
	noneHash      struct{}
	undefinedHash struct{}
	tupleHash     string
	bigHash       string
)

// hashOf maps a key to a comparable Go value, equal exactly where Python's keys are equal: 1, 1.0
// and True are one key.
func hashOf(key Value, depth int) any {
	switch x := key.(type) {
	case nil:
		return noneHash{}
	case string, *namespace, *macro, *function, *interval:
		return x
	case *undefined:
		return undefinedHash{}
	case markup:
		return string(x)
	case bool:
		if x {
			return int64(1)
		}
		return int64(0)
	case int64:
		return x
	case *big.Int:
		return bigHash(x.String())
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<62 {
			return int64(x)
		}
		return x
	case *Tuple:
		return hashTuple(x, depth)
	}
	panic(typeErrorf("unhashable type: '%s'", typeName(key)))
}

func hashTuple(t *Tuple, depth int) any {
	if depth > maxValueDepth {
		panic(tooDeep())
	}
	var b strings.Builder
	for _, v := range t.Items {
		h := hashOf(v, depth+1)
		fmt.Fprintf(&b, "%T%d:%v;", h, len(fmt.Sprint(h)), h)
		if b.Len() > maxKey {
			panic(tooLarge(maxKey))
		}
	}
	return tupleHash(b.String())
}

// maxKey bounds the text that stands for a tuple used as a key.
const maxKey = 1 << 20

// maxValueDepth bounds the nesting of values that are printed, compared or decoded.
const maxValueDepth = 500

func tooDeep() error { return failf(Limit, "a value nests deeper than %d", maxValueDepth) }
