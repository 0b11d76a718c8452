package mathequal

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// Bounds of one comparison of sets: letters that stand for sets, and whole numbers between the
// bounds of intervals.
const (
	maxAtoms    = 6
	maxIntegers = 200
)

// sets compares two sets. It cuts the real line at every bound of either, and asks for each cut and
// each piece between cuts whether it belongs to the one and to the other. A letter stands for a set
// that holds the piece or does not; the sets are equal if they agree either way. ok is false if they
// are no such sets.
func (c *comparer) sets(a, b *node) (same, ok bool) {
	l := &line{c: c, cut: map[*node]*cut{}}
	a, b = asSet(c.oneCondition(a)), asSet(c.oneCondition(b))
	if !l.scan(a) || !l.scan(b) || len(l.atoms) > maxAtoms || len(l.others) > 0 && l.real {
		return false, false
	}
	l.order()
	for piece := range l.pieces() {
		for held := range 1 << len(l.atoms) {
			if l.possible(piece, held) && l.member(a, piece, held) != l.member(b, piece, held) {
				return false, c.steps >= 0
			}
		}
	}
	return true, c.steps >= 0
}

// asSet makes a set of one number.
func asSet(n *node) *node {
	if hasVariable(n) || !isExpression(n) || isInequality(n) || isSet(n) || isComplement(n) {
		return n
	}
	return &node{op: opSequence, text: "{}", args: []*node{n}}
}

// oneCondition makes one set of inequalities between commas: of "x < −1, x > 2", which no number
// satisfies, the union; of "x > 1, x < 3", of which every number satisfies one, the intersection.
func (c *comparer) oneCondition(n *node) *node {
	if n.op != opSequence || n.text != "{}" || !slices.ContainsFunc(n.args, isInequality) {
		return n
	}
	any, all := tree(opUnion, n.args...), tree(opIntersection, n.args...)
	l := &line{c: c, cut: map[*node]*cut{}}
	if !l.scan(any) || len(l.atoms)+len(l.others) > 0 {
		return n
	}
	l.order()
	every, none := true, true
	for piece := range l.pieces() {
		every = every && l.member(any, piece, 0)
		none = none && !l.member(all, piece, 0)
	}
	switch {
	case none && !every:
		return any
	case every && !none:
		return all
	}
	return n
}

// line is the real line with the cuts of two sets. Piece 2i+1 is cut i, piece 2i lies before it. The
// elements that are no real numbers are the pieces behind the last.
type line struct {
	c        *comparer
	cuts     []*cut
	cut      map[*node]*cut
	others   []*node
	atoms    []string // letters of sets and names of sets of numbers
	variable string   // of the conditions outside {x : …}
	real     bool     // there are intervals
	whole    bool     // every whole number between the cuts is a cut
}

// cut is a real number.
type cut struct {
	exact *big.Rat // nil if it is irrational
	value approx
	piece int
}

func (l *line) pieces() int { return 2*len(l.cuts) + 1 + len(l.others) }

// scan collects the bounds, elements and letters of a set, and reports whether it is one.
func (l *line) scan(n *node) bool {
	if !l.c.spend(1) {
		return false
	}
	if inner, ok := complement(n); ok {
		l.real = true
		return l.scan(inner)
	}
	switch n.op {
	case opUnion, opIntersection:
		return l.scanAll(n.args)
	case opDifference, opSub, opDiv:
		return l.scan(n.args[0]) && (l.mark(n.args[1]) || l.scan(n.args[1]))
	case opBuilder:
		free := l.variable
		l.variable = ""
		ok := l.isVariable(n.args[0]) && l.scanAll(n.args[1:])
		l.variable = free
		return ok
	case opSymbol:
		return l.letter(n)
	case opRelation:
		return l.condition(n)
	case opSequence:
		if n.text == "{}" {
			return !slices.ContainsFunc(n.args, func(e *node) bool { return !l.element(e) })
		}
		l.real = true
		return len(n.args) == 2 && strings.Contains("() [] (] [)", n.text) &&
			l.bound(n.args[0], n.text[0] == '(') && l.bound(n.args[1], n.text[1] == ')')
	}
	return false
}

func (l *line) scanAll(sets []*node) bool {
	return !slices.ContainsFunc(sets, func(n *node) bool { return !l.scan(n) })
}

// letter adds the name of a set.
func (l *line) letter(n *node) bool {
	if !hasVariable(n) {
		return false
	}
	if n.text == `\mathbb R` {
		l.real = true
	} else if !slices.Contains(l.atoms, n.text) {
		l.atoms = append(l.atoms, n.text)
	}
	return true
}

func (l *line) isVariable(n *node) bool {
	if n.op != opSymbol || !hasVariable(n) || l.variable != "" && l.variable != n.text {
		return false
	}
	l.variable = n.text
	return true
}

// condition collects the bounds of x = 5 or 1 < x ≤ 3.
func (l *line) condition(n *node) bool {
	l.real = l.real || isInequality(n)
	if !isInequality(n) && n.text != "=" {
		return false
	}
	for i := range len(n.args) - 1 {
		left, right := n.args[i], n.args[i+1]
		strict := strings.ContainsRune("<>", []rune(n.text)[i])
		if !(l.isVariable(left) && l.bound(right, strict)) && !(l.isVariable(right) && l.bound(left, strict)) {
			return false
		}
	}
	return true
}

// element adds an element of a finite set.
func (l *line) element(n *node) bool {
	if isInequality(n) || isSet(n) {
		return l.scan(n)
	}
	if l.mark(n) {
		return true
	}
	if isEquation(n) {
		return l.condition(n)
	}
	for _, o := range l.others {
		if l.c.equal(o, n) {
			return true
		}
	}
	l.others = append(l.others, n)
	return len(l.others) <= maxItems
}

// bound adds a real number, or an infinity, which belongs to no set.
func (l *line) bound(n *node, excluded bool) bool {
	if n.op == opInfinity || n.op == opNeg && n.args[0].op == opInfinity {
		return excluded
	}
	return l.mark(n)
}

// mark adds a real number, and reports whether n is one.
func (l *line) mark(n *node) bool {
	if hasVariable(n) || n.op == opSequence || isSet(n) {
		return false
	}
	exact, isExact := l.c.exact(n)
	value := l.c.at(n, &place{})
	if imag(value.v) != 0 || !value.sound() {
		return false
	}
	if !isExact {
		exact = nil
	}
	l.add(n, &cut{exact: exact, value: value})
	return true
}

func (l *line) add(n *node, new *cut) {
	for _, old := range l.cuts {
		if l.c.spend(1); old.compare(new) == 0 {
			l.cut[n] = old
			return
		}
	}
	l.cuts = append(l.cuts, new)
	l.cut[n] = new
}

func (a *cut) compare(b *cut) int {
	switch {
	case a.exact != nil && b.exact != nil:
		return a.exact.Cmp(b.exact)
	case a.value.agrees(b.value):
		return 0
	case real(a.value.v) < real(b.value.v):
		return -1
	}
	return 1
}

// order sorts the cuts. If whole numbers matter, it adds those between the cuts.
func (l *line) order() {
	slices.SortFunc(l.cuts, (*cut).compare)
	if n := len(l.cuts); n > 0 && (slices.Contains(l.atoms, `\mathbb Z`) || slices.Contains(l.atoms, `\mathbb N`)) {
		low, high := math.Ceil(real(l.cuts[0].value.v)), math.Floor(real(l.cuts[n-1].value.v))
		if l.whole = high-low <= maxIntegers && math.Abs(low) < 1e9; l.whole {
			for i := int64(low); i <= int64(high); i++ {
				l.add(integer(i), &cut{exact: big.NewRat(i, 1), value: approx{v: complex(float64(i), 0)}})
			}
			slices.SortFunc(l.cuts, (*cut).compare)
		}
	}
	for i, c := range l.cuts {
		c.piece = 2*i + 1
	}
}
