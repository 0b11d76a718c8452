package mathequal

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// relations compares equations and inequalities with each other and with values.
func (c *comparer) relations(a, b *node) bool {
	ea, eb := isEquation(a), isEquation(b)
	switch {
	case ea && eb:
		return c.equations(a, b)
	case ea:
		v, ok := c.solved(a)
		return ok && c.equal(v, b)
	case eb:
		v, ok := c.solved(b)
		return ok && c.equal(a, v)
	case a.op == opRelation && b.op == opRelation:
		return c.inequalities(upward(a), upward(b))
	case a.op == opRelation:
		i, ok := interval(upward(a))
		return ok && c.equal(i, b)
	}
	i, ok := interval(upward(b))
	return ok && c.equal(a, i)
}

// assigned returns the values of a list such as "y = 3, x = 2", which gives each variable one value, in
// the order of the variables.
func assigned(n *node) ([]*node, bool) {
	if n.text != "{}" || len(n.args) < 2 {
		return nil, false
	}
	sorted := slices.Clone(n.args)
	name := func(n *node) string { // x for x_1 and x_2, which are two values of x
		letter, _, _ := strings.Cut(n.args[0].String(), "_")
		return letter
	}
	for _, a := range sorted {
		if !isEquation(a) || !isVariable(a.args[0]) {
			return nil, false
		}
	}
	slices.SortStableFunc(sorted, func(a, b *node) int { return strings.Compare(name(a), name(b)) })
	values := make([]*node, len(sorted))
	for i, a := range sorted {
		if i > 0 && name(a) == name(sorted[i-1]) {
			return nil, false
		}
		values[i] = a.args[len(a.args)-1]
	}
	return values, true
}

func isEquation(n *node) bool { return n.op == opRelation && strings.Trim(n.text, "=") == "" }

// solved returns the value that an equation gives: 5 for x = 5, f(x) = 5, 5 = x, or a worked-out
// sum 2 + 3 = 5; (1, 2) for (x, y) = (1, 2).
func (c *comparer) solved(n *node) (*node, bool) {
	first, last := n.args[0], n.args[len(n.args)-1]
	switch {
	case !c.isConsistent(n.args[1:]):
		return nil, false
	case isVariable(first):
		return last, true
	case isVariable(last):
		return first, true
	case isQuantity(first) && !hasVariable(last):
		return last, true
	case !hasVariable(first) && c.equal(first, last):
		return last, true
	}
	return nil, false
}

// isConsistent reports whether the values of a chain such as x = 6/2 = 3 are equal. Of those in units it asks for
// units that are known, because a word such as product begins another value.
func (c *comparer) isConsistent(values []*node) bool {
	for i, v := range values[:len(values)-1] {
		next := values[i+1]
		switch {
		case v.op == opUnit:
			if _, known := units[strings.ToLower(v.text)]; !known || next.op != opUnit && !c.equal(v.args[0], next) {
				return false
			}
		case next.op != opUnit && !hasVariable(v) && !hasVariable(next) && !c.equal(v, next):
			return false
		}
	}
	return true
}

// isVariable reports whether n is a variable, a function of one such as f(x), or a tuple of variables.
func isVariable(n *node) bool {
	if n.op == opSequence && n.text == "()" {
		return !slices.ContainsFunc(n.args, func(a *node) bool { return a.op != opSymbol || !hasVariable(a) })
	}
	if n.op == opMul {
		return n.args[0].op == opSymbol && n.args[1].op == opSymbol && hasVariable(n.args[0]) && hasVariable(n.args[1])
	}
	return n.op == opSymbol && hasVariable(n)
}

// isQuantity reports whether n names a value: f(3), E[X], P(X = 1), |AB| or sin θ.
func isQuantity(n *node) bool {
	switch {
	case n.op == opMul && n.args[0].op == opSymbol && hasVariable(n.args[0]):
		of := n.args[1]
		if of.op == opNumber {
			return strings.Contains(functionLetters, n.args[0].text)
		}
		return of.op == opSequence || of.op == opRelation || isSet(of) || of.op == opIntersection
	case n.op == opCall && strings.Contains("sin cos tan cot sec csc", n.text):
		return true
	}
	return n.op == opCall && (n.text == "abs" || n.text == "overline") && severalVariables(n)
}

// functionLetters name functions: f(3) is a value, and n·3 is none, which the tree does not tell apart.
const functionLetters = "fghpqFGHPQRSTVE"

func severalVariables(n *node) bool {
	c := newComparer()
	c.collect(n)
	return len(c.names) > 1
}

// asked returns the value of an answer such as m + n = 17 or x² + y² = 17, in which variables alone are combined and
// none is determined. As a truth, x + y = 17 may be a line, and so may an answer with factors or with 0.
func asked(n *node) *node {
	last := n.args[len(n.args)-1]
	if !hasVariable(last) && combines(n.args[0]) && severalVariables(n.args[0]) && !newComparer().equal(last, integer(0)) {
		return last
	}
	return n
}

// combines reports whether n is made of variables and their powers by sums, products and quotients, or is a vector
// of such.
func combines(n *node) bool {
	switch n.op {
	case opAdd, opSub, opMul, opDiv, opSequence:
		return !slices.ContainsFunc(n.args, func(a *node) bool { return !combines(a) })
	case opPow:
		return combines(n.args[0]) && n.args[1].op == opNumber
	}
	return n.op == opSymbol && hasVariable(n)
}

func hasVariable(n *node) bool {
	if n.op == opSymbol {
		return n.text != "π" && n.text != "e" && n.text != "i"
	}
	for _, a := range n.args {
		if hasVariable(a) {
			return true
		}
	}
	return false
}

// equations compares the differences left − right, which must be multiples of each other, or the
// right sides if the left sides are equal.
func (c *comparer) equations(a, b *node) bool {
	lastA, lastB := a.args[len(a.args)-1], b.args[len(b.args)-1]
	if sameName(a.args[0], b.args[0]) && c.equal(lastA, lastB) {
		return true
	}
	if len(a.args) != 2 || len(b.args) != 2 {
		return false
	}
	da, db := tree(opSub, a.args[0], lastA), tree(opSub, b.args[0], lastB)
	if !hasVariable(da) || !hasVariable(db) {
		return false
	}
	c.variables(da, db)
	var a0, b0 approx
	defined := 0
	for seed := range uint64(2 * minDefined) {
		p := &place{seed: seed, low: 0.3, span: 2}
		if seed >= minDefined {
			p.negative = scatter(seed)
		}
		va, vb := c.at(da, p), c.at(db, p)
		if !va.sound() || !vb.sound() {
			continue
		}
		if va.agrees(approx{}) || vb.agrees(approx{}) { // a side that vanishes everywhere says nothing
			return false
		}
		if defined == 0 {
			a0, b0 = va, vb
		} else if !product(va, b0).agrees(product(vb, a0)) {
			return false
		}
		defined++
	}
	return defined >= minDefined
}

// sameName reports whether two sides are written alike, or are x and x_1.
func sameName(a, b *node) bool {
	if a.op == opSymbol && b.op == opSymbol && (strings.HasPrefix(a.text, b.text+"_") || strings.HasPrefix(b.text, a.text+"_")) {
		return true
	}
	return a.String() == b.String()
}

var flipped = map[string]string{">": "<", "≥": "≤"}

// upward returns a chain of inequalities with the smaller side first.
func upward(n *node) *node {
	if !strings.ContainsAny(n.text, ">≥") || strings.ContainsAny(n.text, "<≤") {
		return n
	}
	out := &node{op: opRelation}
	for i := len(n.args) - 1; i >= 0; i-- {
		out.args = append(out.args, n.args[i])
	}
	signs := []rune(n.text)
	for i := len(signs) - 1; i >= 0; i-- {
		sign := string(signs[i])
		if f, ok := flipped[sign]; ok {
			sign = f
		}
		out.text += sign
	}
	return out
}

func (c *comparer) inequalities(a, b *node) bool {
	return a.text == b.text && c.sameInOrder(a.args, b.args)
}

// interval returns the set that an inequality of one variable describes: x < 5 is (−∞, 5).
func interval(n *node) (*node, bool) {
	signs := []rune(n.text)
	bound := func(sign rune, open, closed string) string {
		if sign == '<' {
			return open
		}
		return closed
	}
	for _, s := range signs {
		if s != '<' && s != '≤' {
			return nil, false
		}
	}
	seq := func(brackets string, low, high *node) (*node, bool) {
		return &node{op: opSequence, text: brackets, args: []*node{low, high}}, true
	}
	switch {
	case len(signs) == 1 && isVariable(n.args[0]):
		return seq("("+bound(signs[0], ")", "]"), tree(opNeg, tree(opInfinity)), n.args[1])
	case len(signs) == 1 && isVariable(n.args[1]):
		return seq(bound(signs[0], "(", "[")+")", n.args[0], tree(opInfinity))
	case len(signs) == 2 && isVariable(n.args[1]):
		return seq(bound(signs[0], "(", "[")+bound(signs[1], ")", "]"), n.args[0], n.args[2])
	}
	return nil, false
}

func isRounding(n *node) bool { return n.op == opCall && n.text == "approx" }

// rounds reports whether a rounding is one: a whole number is the nearest one, and other decimal numbers differ by
// less than one in the last place.
func (c *comparer) rounds(n *node) bool {
	exact, decimal := n.args[0], n.args[1].num
	if exact.op == opRelation {
		exact = exact.args[len(exact.args)-1]
	}
	if _, rational := c.exact(exact); exact.op == opNumber || rational && decimal.IsInt() { // 17.4 ≈ 17 would be two answers
		return false
	}
	value := c.at(exact, &place{})
	if !value.sound() || imag(value.v) != 0 {
		return false
	}
	last := 1.
	if decimal.IsInt() {
		last = 0.501
	}
	for ten := big.NewRat(10, 1); !decimal.IsInt() && last > 1e-12; last /= 10 {
		decimal = new(big.Rat).Mul(decimal, ten)
	}
	rounded, _ := n.args[1].num.Float64()
	off := math.Abs(real(value.v) - rounded)
	if thousandths := 1000 * off; n.args[1].num.IsInt() && off > 1e-9 && math.Abs(thousandths-math.Round(thousandths)) < 1e-6 {
		return false // √6.25 ≈ 3 would be two answers as well
	}
	return off < last
}
