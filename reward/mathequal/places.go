package mathequal

import (
	"math"
	"slices"
)

// place holds the values of all variables: their sizes are between low and low + span, and the bits
// of negative say which of them are negative.
type place struct {
	seed      uint64
	low, span float64
	negative  uint64
}

// Bounds of one comparison: how many places must be defined, and how many variables may change sign.
const (
	minDefined = 4
	maxFlipped = 8
)

// agree compares two expressions at places, small and large, of both signs.
//
// If both are real throughout at enough places, only those count: √(1/m) = 1/√m, although the sides
// differ for m < 0. Of negative values only those count that single changes of sign lead to through
// real values: √(L/g) = √(Lg)/g, where L and g are quantities and positive, but √(a²b) ≠ a√b. All of this
// does not hold if one expression has i or an absolute value and the other has not.
func (c *comparer) agree(a, b *node) bool {
	inA, inB := c.variables(a, b)
	m := meeting{c: c, a: a, b: b, onlyReal: !inA.i && !inB.i && inA.abs == inB.abs}
	if len(c.names) == 0 {
		return m.meet(&place{}) && m.real+m.unreal == 1 && c.steps >= 0
	}
	return m.everywhere() && (m.real >= minDefined || m.real+m.unreal >= minDefined && !m.differ) && c.steps >= 0
}

// meeting counts the places at which two expressions agree.
type meeting struct {
	c            *comparer
	a, b         *node
	onlyReal     bool // differences at places that are not real may be overlooked
	real, unreal int  // places
	differ       bool // at an unreal place
}

// everywhere visits all places. It returns false if the expressions differ at one that counts.
func (m *meeting) everywhere() bool {
	seed := uint64(0)
	visit := func(low, span float64, negative uint64) bool {
		seed++
		return m.meet(&place{seed, low, span, negative})
	}
	for range 4 {
		if !visit(0.3, 2, 0) {
			return false
		}
	}
	free := uint64(math.MaxUint64) // variables that may be negative
	if m.onlyReal && m.real > 0 {
		free = 0
	}
	for i := range min(len(m.c.names), maxFlipped) {
		for _, span := range []float64{2, 0.3} {
			before := m.real
			if !visit(0.15*span, span, 1<<i) {
				return false
			}
			if m.real > before {
				free |= 1 << i
			}
		}
	}
	for range 4 {
		if !visit(0.3, 2, scatter(seed)&free) || !visit(0.02, 0.95, scatter(seed+100)&free) || !visit(2.5, 10, 0) {
			return false
		}
	}
	return true
}

// meet compares the expressions at one place. It returns false if they differ and the place counts.
func (m *meeting) meet(p *place) bool {
	m.c.unreal = false
	a, b := m.c.at(m.a, p), m.c.at(m.b, p)
	if !a.sound() || !b.sound() {
		return true
	}
	same := a.agrees(b)
	if !m.c.unreal {
		m.real++
		return same
	}
	m.unreal++
	m.differ = m.differ || !same
	return same || m.onlyReal
}

// parts tells what an expression holds.
type parts struct{ i, abs bool }

// variables notes the variables of two expressions and returns what else they hold.
func (c *comparer) variables(a, b *node) (inA, inB parts) {
	c.names = c.names[:0]
	inA, inB = c.collect(a), c.collect(b)
	slices.Sort(c.names)
	return inA, inB
}

func (c *comparer) collect(n *node) (in parts) {
	switch {
	case n.op == opSymbol && n.text == "i":
		in.i = true
	case n.op == opCall && n.text == "abs":
		in.abs = true
	case n.op == opSymbol && hasVariable(n) && len(c.names) < maxItems && !slices.Contains(c.names, n.text):
		c.names = append(c.names, n.text)
	}
	for _, a := range n.args {
		of := c.collect(a)
		in.i, in.abs = in.i || of.i, in.abs || of.abs
	}
	return in
}

// variableAt returns the value of a variable at a place. Constants have their own value.
func (c *comparer) variableAt(name string, p *place) approx {
	switch name {
	case "π":
		return rounded(math.Pi, 0)
	case "e":
		return rounded(math.E, 0)
	case "i":
		return approx{v: 1i}
	}
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	v := p.low + p.span*float64(scatter(h^p.seed)>>11)/(1<<53)
	if i := slices.Index(c.names, name); i >= 0 && p.negative>>i&1 == 1 {
		v = -v
	}
	return approx{v: complex(v, 0)}
}

// scatter returns bits that depend on every bit of h.
func scatter(h uint64) uint64 {
	h *= 0x9e3779b97f4a7c15
	h = (h ^ h>>29) * 0xbf58476d1ce4e5b9
	return h ^ h>>32
}
