package mathequal

import "slices"

// possible reports whether the sets of numbers among the letters may hold a piece as the bits of held
// say: a piece between cuts has no whole number, and whole numbers are rational.
func (l *line) possible(piece, held int) bool {
	in := func(name string) (held_, known bool) {
		i := slices.Index(l.atoms, `\mathbb `+name)
		return i >= 0 && held>>i&1 == 1, i >= 0
	}
	natural, hasN := in("N")
	whole, hasZ := in("Z")
	rational, hasQ := in("Q")
	switch {
	case natural && hasZ && !whole, natural && hasQ && !rational, whole && hasQ && !rational:
		return false
	case piece%2 == 0 || piece > 2*len(l.cuts): // between cuts
		inside := piece > 0 && piece < 2*len(l.cuts)
		return !(inside && l.whole && (whole || natural)) && !(piece == 0 && l.whole && natural && real(l.cuts[0].value.v) <= 0)
	}
	n := l.cuts[piece/2]
	isWhole := n.exact != nil && n.exact.IsInt()
	return !(hasZ && whole != isWhole) && !(hasQ && n.exact != nil && !rational) &&
		!(hasN && (!isWhole || n.exact.Sign() < 0) && natural) && !(hasN && isWhole && n.exact.Sign() > 0 && !natural)
}

// member reports whether a piece belongs to a set, if the bits of held say which letters hold it.
func (l *line) member(n *node, piece, held int) bool {
	if !l.c.spend(1) {
		return false
	}
	in := func(n *node) bool { return l.member(n, piece, held) }
	if inner, ok := complement(n); ok {
		return !in(inner)
	}
	switch n.op {
	case opUnion:
		return slices.ContainsFunc(n.args, in)
	case opIntersection:
		return !slices.ContainsFunc(n.args, func(n *node) bool { return !in(n) })
	case opBuilder:
		return !slices.ContainsFunc(n.args[1:], func(n *node) bool { return !in(n) })
	case opDifference, opSub, opDiv:
		return in(n.args[0]) && !in(n.args[1])
	case opSymbol:
		if i := slices.Index(l.atoms, n.text); i >= 0 {
			return held>>i&1 == 1
		}
		return l.cut[n] == nil || l.side(n, piece) == 0
	case opRelation:
		return l.satisfies(n, piece)
	case opSequence:
		if n.text == "{}" {
			return slices.ContainsFunc(n.args, func(e *node) bool {
				return l.is(e, piece) || l.cut[e] == nil && (isSet(e) || isEquation(e)) && in(e)
			})
		}
		low, high := l.side(n.args[0], piece), l.side(n.args[1], piece)
		return (low > 0 || low == 0 && n.text[0] == '[') && (high < 0 || high == 0 && n.text[1] == ']')
	}
	return l.is(n, piece)
}

// is reports whether a piece is an element of a finite set.
func (l *line) is(n *node, piece int) bool {
	if l.cut[n] != nil {
		return l.side(n, piece) == 0
	}
	i := piece - 2*len(l.cuts) - 1
	return i >= 0 && l.c.equal(l.others[i], n)
}

// side returns where a piece lies: below a bound, on it or above it.
func (l *line) side(bound *node, piece int) int {
	switch {
	case piece > 2*len(l.cuts): // no real number
		return -1
	case bound.op == opInfinity:
		return -1
	case l.cut[bound] == nil:
		return 1
	}
	return piece - l.cut[bound].piece
}

// satisfies reports whether the numbers of a piece satisfy every relation of a chain.
func (l *line) satisfies(n *node, piece int) bool {
	for i, sign := range []rune(n.text) {
		bound, mirrored := n.args[i+1], false
		if !hasVariable(n.args[i]) {
			bound, mirrored = n.args[i], true
		}
		side := l.side(bound, piece)
		if mirrored {
			side = -side
		}
		if !holds(sign, side) {
			return false
		}
	}
	return true
}

// holds reports whether a number on that side of a bound is in the relation to it.
func holds(sign rune, side int) bool {
	switch sign {
	case '<':
		return side < 0
	case '≤':
		return side <= 0
	case '>':
		return side > 0
	case '≥':
		return side >= 0
	case '≠':
		return side != 0
	}
	return side == 0
}
