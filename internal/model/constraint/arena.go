package constraint

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// kind says what a node matches.
type kind uint8

const (
	kindNone  kind = iota // no text
	kindEmpty             // the empty text
	kindAll               // every text
	kindSet               // one byte of a set
	kindCat               // a, then b
	kindAlt               // one of the list
	kindAnd               // all of the list
	kindNot               // what a does not match
	kindRep               // a from min to max times
	kindUnit              // a, a regular part such as a key, a string or a number
	kindRef               // the rule a
)

// Nodes that every arena has at these places.
const (
	none  int32 = 0
	empty int32 = 1
	all   int32 = 2
)

// unlimited is the max of a repetition without an upper bound.
const unlimited int32 = -1

// Values of b in a unit.
const (
	unitPlain int32 = iota
	unitText        // a string in quotes of which nothing is written
	unitBegun       // the rest of one
)

// node is an expression over bytes. Nodes are interned: equal ones have equal numbers.
type node struct {
	kind     kind
	nullable bool // it matches the empty text
	logic    bool // an intersection or a complement is part of it, so it may match nothing
	a, b     int32
	min, max int32
	list     []int32
}

type nodeKey struct {
	kind           kind
	a, b, min, max int32
}

// maxNodes bounds the memory of an arena: a pattern such as (.*a.{20}) has millions of states.
const maxNodes = 1 << 17

// Derivatives that an arena may compute. All sequences of a sampler wait for a mask, so it must take
// milliseconds at most.
const (
	compileWork = 4 << 20
	maskWork    = 1 << 20 // in advance, for the states that many replies share
	tokenWork   = 1 << 15 // more for each token that is accepted
)

var errTooLarge = errors.New("the constraint is too complex: make its patterns simpler or its lengths shorter")

// arena holds the nodes of one grammar and what is known of them. Brzozowski's derivatives turn a
// node and a byte into the node that matches the rest, so nodes are the states of an automaton that
// is built where texts lead it; recursion of a grammar grows no table.
type arena struct {
	nodes []node
	known map[nodeKey]int32
	lists map[string]int32 // alternatives and intersections
	sets  [][4]uint64
	setOf map[[4]uint64]int32
	rules []rule

	rows     map[int32]*[256]int32 // derivatives that are known, by node
	lastNode int32                 // the newest row that was looked up
	lastRow  *[256]int32
	lives    map[int32]bool  // whether nodes with logic match any text
	needs    map[int32]int32 // what need returned
	single   map[int32]bool  // nodes that match one character of a string; a text divides into them in one way
	classes  []byte          // one byte of each class of bytes that no set tells apart; nil until it is asked for
	work     int             // derivatives that it may still compute
	key      []byte          // scratch
	err      error
}

// rule is what a reference stands for.
type rule struct {
	body     int32
	nullable bool
}

func newArena() *arena {
	g := &arena{
		known: map[nodeKey]int32{}, lists: map[string]int32{}, setOf: map[[4]uint64]int32{}, rows: map[int32]*[256]int32{},
		lives: map[int32]bool{}, single: map[int32]bool{}, needs: map[int32]int32{}, lastNode: -1, work: compileWork,
	}
	for i, n := range []node{{kind: kindNone}, {kind: kindEmpty, nullable: true}, {kind: kindAll, nullable: true}} {
		g.known[nodeKey{kind: n.kind}] = int32(i)
		g.nodes = append(g.nodes, n)
	}
	return g
}

// intern returns the number of a node without a list.
func (g *arena) intern(n node) int32 {
	key := nodeKey{n.kind, n.a, n.b, n.min, n.max}
	if id, ok := g.known[key]; ok {
		return id
	}
	id := g.push(n)
	if id != none {
		g.known[key] = id
	}
	return id
}

// push appends a node. A full arena sets err and returns none, which nobody may remember.
func (g *arena) push(n node) int32 {
	if len(g.nodes) >= maxNodes {
		g.err = errTooLarge
		return none
	}
	g.nodes = append(g.nodes, n)
	return int32(len(g.nodes) - 1)
}

// join returns the number of an alternative or an intersection. neutral is the part that changes
// nothing, and absorbing the one with which the whole is absorbing.
func (g *arena) join(k kind, neutral, absorbing int32, parts []int32) int32 {
	list := flat(g.nodes, k, neutral, absorbing, parts)
	switch len(list) {
	case 0:
		return neutral
	case 1:
		return list[0]
	}
	g.key = append(g.key[:0], byte(k))
	for _, id := range list {
		g.key = binary.LittleEndian.AppendUint32(g.key, uint32(id))
	}
	if id, ok := g.lists[string(g.key)]; ok {
		return id
	}
	n := node{kind: k, nullable: k == kindAnd, logic: k == kindAnd, list: slices.Clone(list)}
	for _, id := range list {
		n.logic = n.logic || g.nodes[id].logic
		if k == kindAnd {
			n.nullable = n.nullable && g.nodes[id].nullable
		} else {
			n.nullable = n.nullable || g.nodes[id].nullable
		}
	}
	id := g.push(n)
	if id != none {
		g.lists[string(g.key)] = id
	}
	return id
}

// flat returns the parts of a join, sorted and each once. Those of a part of the same kind take its place.
func flat(nodes []node, k kind, neutral, absorbing int32, parts []int32) []int32 {
	list := make([]int32, 0, len(parts))
	for _, p := range parts {
		switch n := &nodes[p]; {
		case p == absorbing:
			return []int32{absorbing}
		case p == neutral:
		case n.kind == k:
			list = append(list, n.list...)
		default:
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// set matches one byte of a set.
func (g *arena) set(bytes [4]uint64) int32 {
	if bytes == [4]uint64{} {
		return none
	}
	at, ok := g.setOf[bytes]
	if !ok {
		at = int32(len(g.sets))
		g.sets, g.setOf[bytes] = append(g.sets, bytes), at
		g.classes = nil
	}
	return g.intern(node{kind: kindSet, a: at})
}

// span matches a byte from lo to hi.
func (g *arena) span(lo, hi byte) int32 {
	var s [4]uint64
	for c := int(lo); c <= int(hi); c++ {
		s[c/64] |= 1 << (c % 64)
	}
	return g.set(s)
}

// oneOf matches one of the bytes.
func (g *arena) oneOf(bytes string) int32 {
	var s [4]uint64
	for i := range len(bytes) {
		s[bytes[i]/64] |= 1 << (bytes[i] % 64)
	}
	return g.set(s)
}

// literal matches a text.
func (g *arena) literal(text string) int32 {
	out := empty
	for i := len(text) - 1; i >= 0; i-- {
		out = g.cat(g.span(text[i], text[i]), out)
	}
	return out
}

// cat matches a, then b. Chains nest to the right, so that a derivative touches the first part alone.
func (g *arena) cat(a, b int32) int32 {
	switch {
	case a == none || b == none:
		return none
	case a == empty:
		return b
	case b == empty:
		return a
	}
	x, y := &g.nodes[a], &g.nodes[b]
	if x.kind == kindCat {
		return g.cat(x.a, g.cat(x.b, b))
	}
	return g.intern(node{kind: kindCat, a: a, b: b, nullable: x.nullable && y.nullable, logic: x.logic || y.logic})
}

// seq matches one part after another.
func (g *arena) seq(parts ...int32) int32 {
	out := empty
	for _, p := range slices.Backward(parts) {
		out = g.cat(p, out)
	}
	return out
}

// alt matches what one of the parts matches.
func (g *arena) alt(parts ...int32) int32 { return g.join(kindAlt, none, all, parts) }

// factored returns what matches the same as a list of many alternatives of a few bytes, with one alternative
// for the first bytes that the same bytes may follow. Derivatives of a class of letters then cost less.
func (g *arena) factored(id int32) int32 {
	if n := &g.nodes[id]; n.kind != kindAlt || len(n.list) < 8 {
		return id
	}
	var order []int32
	first := map[int32][4]uint64{}
	for c := range 256 {
		to := g.derive(id, byte(c))
		if to == none {
			continue
		}
		bytes, known := first[to]
		if !known {
			order = append(order, to)
		}
		bytes[c/64] |= 1 << (c % 64)
		first[to] = bytes
	}
	list := make([]int32, 0, len(order))
	for _, to := range order {
		list = append(list, g.cat(g.set(first[to]), g.factored(to)))
	}
	return g.alt(list...)
}

// option matches a or the empty text.
func (g *arena) option(a int32) int32 { return g.alt(a, empty) }

// and matches what all parts match.
func (g *arena) and(parts ...int32) int32 { return g.join(kindAnd, all, none, parts) }

// not matches what a does not match.
func (g *arena) not(a int32) int32 {
	switch {
	case a == none:
		return all
	case a == all:
		return none
	case g.nodes[a].kind == kindNot:
		return g.nodes[a].a
	}
	return g.intern(node{kind: kindNot, a: a, nullable: !g.nodes[a].nullable, logic: true})
}

// lacks matches what has no part that a matches. Behind such a part it is none at once.
func (g *arena) lacks(a int32) int32 { return g.not(g.seq(all, a, all)) }

// rep matches a from min to max times.
func (g *arena) rep(a, min, max int32) int32 {
	if g.nodes[a].nullable {
		min = 0
	}
	switch {
	case max == 0 || a == empty || a == none && min == 0:
		return empty
	case a == none || max != unlimited && min > max:
		return none
	case min == 1 && max == 1:
		return a
	}
	return g.intern(node{kind: kindRep, a: a, min: min, max: max, nullable: min == 0, logic: g.nodes[a].logic})
}

// unit matches a as one part, whose masks are computed once for all places where it stands.
func (g *arena) unit(a, text int32) int32 {
	if n := &g.nodes[a]; a == none || a == empty || n.kind == kindUnit {
		return a
	} else if n.logic && !g.live(a) {
		return none
	} else {
		return g.intern(node{kind: kindUnit, a: a, b: text, nullable: n.nullable})
	}
}

// declare returns a rule without a body.
func (g *arena) declare(nullable bool) (ref int32) {
	g.rules = append(g.rules, rule{none, nullable})
	return g.intern(node{kind: kindRef, a: int32(len(g.rules) - 1), nullable: nullable})
}

// define sets the body of a rule.
func (g *arena) define(ref, body int32) { g.rules[g.nodes[ref].a].body = body }

// productive reports for each rule whether it matches any text that ends.
func (g *arena) productive() []bool {
	yes := make([]bool, len(g.rules))
	for changed := true; changed; {
		changed = false
		seen := map[int32]bool{}
		for i := len(g.rules) - 1; i >= 0; i-- { // most rules refer to later ones
			if !yes[i] && g.ends(g.rules[i].body, yes, seen) {
				yes[i], changed = true, true
			}
		}
	}
	return yes
}

// ends reports whether a node matches a text that ends, given the rules that do. seen remembers the
// alternatives that do.
func (g *arena) ends(id int32, rules []bool, seen map[int32]bool) bool {
	n := &g.nodes[id]
	switch n.kind {
	case kindNone:
		return false
	case kindRef:
		return rules[n.a]
	case kindCat:
		for ; n.kind == kindCat; id, n = n.b, &g.nodes[n.b] {
			if !g.ends(n.a, rules, seen) {
				return false
			}
		}
		return g.ends(id, rules, seen)
	case kindAlt:
		if !seen[id] {
			seen[id] = slices.ContainsFunc(n.list, func(x int32) bool { return g.ends(x, rules, seen) })
		}
		return seen[id]
	case kindRep:
		return n.min == 0 || g.ends(n.a, rules, seen)
	}
	return true
}

// clone returns a copy that grows apart.
func (g *arena) clone() *arena {
	c := *g
	c.nodes, c.sets, c.rules = slices.Clone(g.nodes), slices.Clone(g.sets), slices.Clone(g.rules)
	c.known, c.lists, c.setOf = maps.Clone(g.known), maps.Clone(g.lists), maps.Clone(g.setOf)
	c.lives, c.single, c.needs = maps.Clone(g.lives), maps.Clone(g.single), maps.Clone(g.needs)
	c.rows, c.lastNode, c.lastRow, c.key, c.work = map[int32]*[256]int32{}, -1, nil, nil, compileWork
	for id, row := range g.rows {
		c.rows[id] = new(*row)
	}
	return &c
}
