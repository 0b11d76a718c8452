package mathequal

import (
	"math/big"
	"slices"
	"strings"
)

// maxSteps bounds the nodes that one comparison visits.
const maxSteps = 200_000

type comparer struct {
	steps  int                 // nodes left to visit
	work   int                 // budget left for exact arithmetic
	names  []string            // variables of the expressions that are compared, in order
	values map[string]*big.Rat // of variables in exact arithmetic
	unreal bool                // a value since the last reset was no real number
}

func newComparer() *comparer { return &comparer{steps: maxSteps, work: maxWork} }

func (c *comparer) spend(n int) bool {
	c.steps -= n
	return c.steps >= 0
}

// equal reports whether two trees are the same object.
func (c *comparer) equal(a, b *node) bool {
	if !c.spend(1) {
		return false
	}
	if isRounding(a) {
		return c.rounds(a) && (c.equal(a.args[0], b) || c.equal(a.args[1], b))
	} else if isRounding(b) {
		return c.equal(b, a)
	}
	a, b = bothSigns(a), bothSigns(b)
	if isSet(a) || isSet(b) || isComplement(a) && isComplement(b) {
		if same, ok := c.sets(a, b); ok {
			return same
		}
	}
	switch {
	case a.op == opRelation || b.op == opRelation:
		return c.relations(a, b)
	case a.op == opUnit || b.op == opUnit || a.op == opPercent || b.op == opPercent || a.op == opDegree || b.op == opDegree:
		return c.quantities(a, b)
	case a.op == opSequence && b.op == opSequence:
		return c.sequences(a, b)
	case a.op == opSequence: // a set of one element equals the element
		only, ok := c.only(a)
		return ok && isExpression(b) && c.equal(only, b)
	case b.op == opSequence:
		only, ok := c.only(b)
		return ok && isExpression(a) && c.equal(a, only)
	case a.op == opUnion && b.op == opUnion, a.op == opIntersection && b.op == opIntersection:
		return c.sameMembers(a.args, b.args)
	case a.op == opDifference && b.op == opDifference:
		return c.sameInOrder(a.args, b.args)
	case a.op == opBuilder && b.op == opBuilder:
		return c.sameInOrder(bound(a), bound(b))
	case !isExpression(a) || !isExpression(b):
		return false
	}
	return c.expressions(a, b)
}

// sequences compares sets without order, and everything else in order and with the same brackets.
func (c *comparer) sequences(a, b *node) bool {
	if values, ok := assigned(a); ok && !slices.ContainsFunc(b.args, isEquation) {
		return (b.text == "{}" || b.text == "()") && c.sameInOrder(values, b.args)
	}
	if values, ok := assigned(b); ok && !slices.ContainsFunc(a.args, isEquation) {
		return (a.text == "{}" || a.text == "()") && c.sameInOrder(a.args, values)
	}
	if a.text != b.text {
		if len(b.args) == 1 && b.text == "{}" { // {(1, 2)} is (1, 2)
			a, b = b, a
		}
		return len(a.args) == 1 && a.text == "{}" && a.args[0].op == opSequence && c.equal(a.args[0], b)
	}
	if a.text == "{}" {
		return c.sameMembers(a.args, b.args)
	}
	return c.sameInOrder(a.args, b.args)
}

// only returns the one value of a set, of which the set may have several forms, as in "3/4 or 0.75".
func (c *comparer) only(n *node) (*node, bool) {
	if n.text != "{}" || len(n.args) == 0 {
		return nil, false
	}
	first := n.args[0]
	for _, a := range n.args[1:] {
		if isEquation(first) && isEquation(a) && first.args[0].String() != a.args[0].String() || !c.equal(first, a) {
			return nil, false
		}
	}
	return first, true
}

func (c *comparer) sameInOrder(a, b []*node) bool { return slices.EqualFunc(a, b, c.equal) }

// isExpression reports whether n is a value and neither a list nor a set.
func isExpression(n *node) bool {
	return n.op != opSequence && n.op != opUnion && n.op != opIntersection && n.op != opDifference && n.op != opBuilder
}

// sameMembers reports whether each list contains every element of the other.
func (c *comparer) sameMembers(a, b []*node) bool {
	return c.holds(a, b) && c.holds(b, a)
}

func (c *comparer) holds(all, some []*node) bool {
	for _, x := range some {
		found := false
		for _, y := range all {
			if found = c.equal(x, y); found {
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// quantities compares values with units. A unit may be missing on one side.
func (c *comparer) quantities(a, b *node) bool {
	va, ua := withoutUnit(a)
	vb, ub := withoutUnit(b)
	pa, manyA := multiplied(a)
	if pb, manyB := multiplied(b); manyA || manyB {
		return c.equal(pa, pb) || (ua == "" || ub == "" || ua == ub) && c.equal(va, vb)
	}
	if ua != "" && ub != "" {
		return !contradict(ua, ub) && c.equal(va, vb)
	}
	if c.equal(va, vb) {
		return true
	}
	if ua == "%" || ub == "%" || ua == "°" || ub == "°" { // as hundredths, as radians
		return c.expressions(a, b)
	}
	return false
}

func withoutUnit(n *node) (value *node, unit string) {
	switch n.op {
	case opUnit:
		return n.args[0], n.text
	case opPercent:
		return n.args[0], "%"
	case opDegree:
		return n.args[0], "°"
	}
	return n, ""
}

// expressions compares values: exactly if both are rational, otherwise at points.
func (c *comparer) expressions(a, b *node) bool {
	ra, exactA := c.exact(a)
	rb, exactB := c.exact(b)
	if exactA && exactB {
		return ra.Cmp(rb) == 0
	}
	if a.String() == b.String() {
		return true
	}
	return c.agree(a, b) && !c.differExactly(a, b)
}

// differExactly reports whether rational expressions differ at a place where both have exact values,
// so that x + 10^{-20} is not x.
func (c *comparer) differExactly(a, b *node) bool {
	if len(c.names) == 0 {
		return false
	}
	c.values = map[string]*big.Rat{}
	defer func() { c.values = nil }()
	for i, name := range c.names {
		c.values[name] = big.NewRat(int64(2*i+5), 3)
	}
	va, ok := c.exact(a)
	if !ok {
		return false
	}
	vb, ok := c.exact(b)
	return ok && va.Cmp(vb) != 0
}

// bothSigns turns the first ± of an expression into a set of two.
func bothSigns(n *node) *node {
	plus, found := choose(n, true)
	if !found {
		return n
	}
	minus, _ := choose(n, false)
	return &node{op: opSequence, text: "{}", args: []*node{plus, minus}}
}

// choose replaces every ± outside of lists and relations by one of its signs.
func choose(n *node, upper bool) (out *node, found bool) {
	if !isExpression(n) || n.op == opRelation && strings.Trim(n.text, "=") != "" {
		return n, false
	}
	args := make([]*node, len(n.args))
	for i, a := range n.args {
		var f bool
		args[i], f = choose(a, upper)
		found = found || f
	}
	if n.op == opPlusMinus {
		if upper == (n.text == "+") {
			return tree(opAdd, args...), true
		}
		return tree(opSub, args...), true
	}
	if !found {
		return n, false
	}
	return &node{op: n.op, num: n.num, text: n.text, args: args}, true
}

// String writes the tree in a canonical form.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	b.WriteByte('(')
	b.WriteByte('a' + byte(n.op))
	b.WriteString(n.text)
	if n.num != nil {
		b.WriteString(ratText(n.num))
	}
	for _, a := range n.args {
		a.write(b)
	}
	b.WriteByte(')')
}

func ratText(r *big.Rat) string { return r.Num().Text(62) + "/" + r.Denom().Text(62) }
