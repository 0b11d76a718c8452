package constraint

import "slices"

// A mask is made of parts, because most texts in JSON are strings, and most tokens may stand in one.
// For the rest of a string the tokens that do not end it are found once for a vocabulary and a grammar
// (inner); what may follow the string is walked for the tokens alone that end it (exits).

// Bounds of what a grammar keeps.
const (
	maxMasks  = 256
	maxInners = 32
)

// masks computes the masks of the states of one grammar. A grammar's lock guards it.
type masks struct {
	g      *arena
	v      *Vocabulary
	words  int
	of     map[int32][]uint64 // by the state that saturated returns
	inners map[int32]*inner   // by unit
	stack  []int32            // states on the way to a node of the trie
	heads  []head             // scratch
	direct []int32            // scratch
	spare  [][]uint64
	some   []uint64 // scratch
}

// inner says which tokens a unit takes without what follows it.
type inner struct {
	bits  []uint64
	exits []exit
	long  []counted // tokens by the characters of the string that they begin, the most first; for lengths
}

// exit is a node of the trie at which a unit is complete.
type exit struct {
	node  int32
	count int32 // of characters that began on the way
}

// counted is a token that begins so many characters of a string.
type counted struct{ token, count int32 }

// head is the first unit of a state, with what follows it.
type head struct{ unit, tail int32 }

// newMasks returns the masks of an arena that has no states yet.
func newMasks(g *arena, v *Vocabulary) *masks {
	return &masks{
		g: g, v: v, words: (v.size + 63) / 64, of: map[int32][]uint64{}, inners: map[int32]*inner{},
		stack: make([]int32, v.trie.height+1),
	}
}

// mask returns the bits of the tokens that may come next in a state, less those that end the reply. The
// caller must not change them.
func (m *masks) mask(state int32) []uint64 {
	state = m.saturated(state, 0)
	if known, ok := m.of[state]; ok {
		return known
	}
	if len(m.of) >= maxMasks {
		for _, old := range m.of {
			m.spare = append(m.spare, old)
		}
		clear(m.of)
	}
	var out []uint64
	if n := len(m.spare); n > 0 {
		out, m.spare = m.spare[n-1], m.spare[:n-1]
		clear(out)
	} else {
		out = make([]uint64, m.words)
	}
	m.heads, m.direct = m.heads[:0], m.direct[:0]
	m.split(state, empty)
	for _, h := range m.heads {
		m.addText(out, h)
	}
	if rest := m.g.alt(m.direct...); rest != none {
		m.walk(rest, 0, int32(len(m.v.trie.label)), out)
	}
	if m.g.err != nil {
		m.spare = append(m.spare, out)
		return out
	}
	m.of[state] = out
	return out
}

// begin computes the masks of the first states of a text, so that a form is refused at once if they take
// too much.
func (m *masks) begin(state int32) {
	m.g.work = maskWork
	for range 4 {
		m.mask(state)
		next := none
		for c := 256; c > ' '; c-- {
			if to := m.g.step(state, byte(c-1)); to != none {
				next = to
			}
		}
		if state = next; state <= empty || m.g.err != nil {
			return
		}
	}
}

// split takes a state apart: into heads, which are begun strings, and other parts.
func (m *masks) split(state, tail int32) {
	switch n := m.g.nodes[state]; n.kind {
	case kindEmpty:
		if tail != empty {
			m.split(tail, empty)
		}
	case kindAlt:
		for _, x := range n.list {
			m.split(x, tail)
		}
	case kindCat:
		if first := m.g.nodes[n.a]; first.kind == kindAlt || first.kind == kindUnit && first.b == unitBegun {
			m.split(n.a, m.g.cat(n.b, tail))
			return
		}
		m.direct = append(m.direct, m.g.cat(state, tail))
	case kindUnit:
		if n.b == unitBegun {
			m.heads = append(m.heads, head{state, tail})
			return
		}
		m.direct = append(m.direct, m.g.cat(state, tail))
	default:
		m.direct = append(m.direct, m.g.cat(state, tail))
	}
}

// walk sets the bits of the tokens in the nodes [from, to) of the trie, below a node at which the state
// is state.
func (m *masks) walk(state, from, to int32, out []uint64) {
	t := &m.v.trie
	if from >= to {
		return
	}
	m.stack[t.depth[from]-1] = state
	for i := from; i < to; {
		depth := t.depth[i]
		next := m.g.step(m.stack[depth-1], t.label[i])
		if next == none {
			i = t.end[i]
			continue
		}
		m.stack[depth] = next
		for _, token := range t.tokens[t.first[i]:t.first[i+1]] {
			out[token/64] |= 1 << (token % 64)
		}
		i++
	}
}

// addText sets the bits of the tokens that may follow in a begun string.
func (m *masks) addText(out []uint64, h head) {
	free, least, most := m.unbounded(h.unit)
	in := m.inners[free]
	if in == nil {
		if in = m.newInner(free); m.g.err != nil {
			return
		}
		for old := range m.inners {
			if len(m.inners) < maxInners {
				break
			}
			delete(m.inners, old)
		}
		m.inners[free] = in
	}
	fits := in.bits
	if most != unlimited {
		m.some = append(m.some[:0], in.bits...)
		fits = m.some
		for _, c := range in.long {
			if c.count <= most {
				break
			}
			fits[c.token/64] &^= 1 << (c.token % 64)
		}
	}
	for i, w := range fits {
		out[i] |= w
	}
	t := &m.v.trie
	for _, e := range in.exits {
		if e.count < least || most != unlimited && e.count > most {
			continue
		}
		for _, token := range t.tokens[t.first[e.node]:t.first[e.node+1]] {
			out[token/64] |= 1 << (token % 64)
		}
		m.walk(h.tail, e.node+1, t.end[e.node], out)
	}
}

// unbounded returns a begun string without limits of its length, and the least and the most characters
// that may follow. A string of another form is returned as it is, with 0 and unlimited.
func (m *masks) unbounded(unit int32) (free, least, most int32) {
	body := m.g.nodes[unit].a
	prefix := empty
	for n := m.g.nodes[body]; ; n = m.g.nodes[body] {
		if n.kind != kindCat {
			return unit, 0, unlimited
		}
		first := m.g.nodes[n.a]
		if open, most, ok := m.g.uncounted(n.a); ok && prefix == empty && m.g.nodes[n.b].kind == kindSet {
			return m.g.unit(m.g.cat(open, n.b), unitBegun), 0, most
		}
		if first.kind == kindRep && m.g.nodes[n.b].kind == kindSet { // characters, then the quote
			if first.min == 0 && first.max == unlimited || !m.g.single[first.a] {
				return unit, 0, unlimited
			}
			whole := m.g.seq(prefix, m.g.rep(first.a, 0, unlimited), n.b)
			return m.g.unit(whole, unitBegun), first.min, first.max
		}
		prefix, body = m.g.cat(prefix, n.a), n.b
	}
}

// hasFree reports whether a begun string ends with any characters in any number, so that unbounded returns
// it for strings with limits of their length.
func (m *masks) hasFree(unit int32) bool {
	for n := m.g.nodes[m.g.nodes[unit].a]; n.kind == kindCat; n = m.g.nodes[n.b] {
		if m.g.nodes[n.a].kind == kindAnd {
			return true
		}
		if first := m.g.nodes[n.a]; first.kind == kindRep && m.g.nodes[n.b].kind == kindSet {
			return m.g.single[first.a]
		}
	}
	return false
}

// newInner walks the whole trie with a unit.
func (m *masks) newInner(unit int32) *inner {
	in := &inner{bits: make([]uint64, m.words)}
	t := &m.v.trie
	counts := make([]int32, t.height+1)
	isCounted := m.hasFree(unit)
	m.stack[0] = unit
	for i := int32(0); i < int32(len(t.label)); {
		depth := t.depth[i]
		before := m.stack[depth-1]
		next := m.g.step(before, t.label[i])
		if next == none {
			i = t.end[i]
			continue
		}
		m.stack[depth], counts[depth] = next, counts[depth-1]
		if next == empty {
			in.exits = append(in.exits, exit{i, counts[depth]})
			i = t.end[i]
			continue
		}
		if m.isBetween(before) {
			counts[depth]++
		}
		for _, token := range t.tokens[t.first[i]:t.first[i+1]] {
			in.bits[token/64] |= 1 << (token % 64)
			if isCounted {
				in.long = append(in.long, counted{token, counts[depth] + m.rest(next)})
			}
		}
		i++
	}
	slices.SortStableFunc(in.long, func(a, b counted) int { return int(b.count - a.count) })
	return in
}

// rest returns the fewest characters that must still follow in a begun string.
func (m *masks) rest(unit int32) int32 {
	body := m.g.nodes[m.g.nodes[unit].a]
	if body.kind != kindCat || m.g.nodes[body.a].kind != kindAnd {
		return 0
	}
	return m.g.need(body.a)
}

// isBetween reports whether a begun string stands between two characters.
func (m *masks) isBetween(unit int32) bool {
	n := m.g.nodes[unit]
	if n.kind != kindUnit {
		return false
	}
	body := m.g.nodes[n.a]
	return body.kind == kindCat && (m.g.nodes[body.a].kind == kindRep || m.g.isAtCharacter(body.a)) && m.g.nodes[body.b].kind == kindSet
}

// deepest bounds how much of a state saturated looks at.
const deepest = 12

// saturated returns a state with the same mask: a token cannot repeat anything more often than it has
// bytes, so larger counts are all one.
func (m *masks) saturated(id int32, depth int) int32 {
	if depth > deepest {
		return id
	}
	n := m.g.nodes[id]
	most := int32(m.v.trie.height)
	switch n.kind {
	case kindCat:
		return m.g.cat(m.saturated(n.a, depth+1), m.saturated(n.b, depth+1))
	case kindUnit:
		if n.logic {
			return id
		}
		return m.g.unit(m.saturated(n.a, depth+1), n.b)
	case kindRep:
		if n.max > most {
			n.max = unlimited
		}
		return m.g.rep(n.a, min(n.min, most+1), n.max)
	}
	return id
}
