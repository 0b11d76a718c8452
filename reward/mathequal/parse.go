package mathequal

import (
	"slices"
	"strings"
)

// maxDepth bounds nesting, maxItems the elements of a list.
const (
	maxDepth = 60
	maxItems = 40
)

// Binding powers of the Pratt parser (Pratt 1973). A juxtaposition binds like a product: 1/2x is
// (1/2)·x.
const (
	bindSum     = 10
	bindProduct = 20
	bindPower   = 40
	bindPostfix = 50
)

type parser struct {
	tokens []token
	pos    int
	depth  int
	bars   int // open absolute values
}

// parse reads all tokens as one expression, relation or list.
func parse(tokens []token) (*node, error) {
	p := &parser{tokens: fractions(append([]token(nil), tokens...))}
	items, joint, err := p.list()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.tokens) {
		return nil, errNotMathematics
	}
	n := joined(items, joint)
	if n.op == opMul && isCapital(n.args[0].text) && n.args[1].op == opSequence && n.args[1].text == "()" && !hasVariable(n.args[1]) {
		return n.args[1], nil // the point A(1, 2)
	}
	return n, nil
}

func (p *parser) peek() token {
	if p.pos < len(p.tokens) {
		return p.tokens[p.pos]
	}
	return token{kind: mark}
}

// at reports whether the next token is the mark; the end is the mark "".
func (p *parser) at(text string) bool { t := p.peek(); return t.kind == mark && t.text == text }

func (p *parser) accept(text string) bool {
	if text != "" && p.at(text) {
		p.pos++
		return true
	}
	return false
}

// list reads items between commas, semicolons, "and" and "or". joint is one of the two if all of the
// separators may be read as it.
func (p *parser) list() (items []*node, joint string, err error) {
	if p.depth++; p.depth > maxDepth {
		return nil, "", errNotMathematics
	}
	defer func() { p.depth-- }()
	joint = ","
	for {
		item, err := p.item()
		if err != nil {
			return nil, "", err
		}
		if items = append(items, item); len(items) > maxItems {
			return nil, "", errNotMathematics
		}
		separators := 0
		for p.separator(item) { // "1, 2, and 3"
			sign := p.tokens[p.pos-1].text
			switch {
			case sign == "∧":
				sign = "and"
			case sign == ";":
				sign = ","
			}
			if joint == "," || joint == sign {
				joint = sign
			} else if sign != "," {
				joint = "mixed"
			}
			separators++
		}
		if separators == 0 {
			return items, joint, nil
		}
	}
}

// separator accepts what separates items. The sign ∧ joins relations; between letters it is logic.
func (p *parser) separator(item *node) bool {
	return p.accept(",") || p.accept(";") || p.accept("and") || p.accept("or") || item.op == opRelation && p.accept("∧")
}

// joined makes one node of a list: a set of values, or the numbers for which conditions hold.
func joined(items []*node, joint string) *node {
	if len(items) == 1 {
		return items[0]
	}
	if first := items[0]; first.op == opRelation && first.text == "≠" { // x ≠ 1, 2
		for i, n := range items {
			if isExpression(n) && n.op != opRelation {
				items[i] = &node{op: opRelation, text: "≠", args: []*node{first.args[0], n}}
			}
		}
	}
	isCondition := func(n *node) bool { return isInequality(n) || n.op == opBuilder }
	conditions := slices.ContainsFunc(items, isCondition) && !slices.ContainsFunc(items, func(n *node) bool {
		return n.op != opRelation && !isSet(n)
	})
	switch {
	case conditions && joint == "or":
		return tree(opUnion, items...)
	case conditions && joint == "and":
		return tree(opIntersection, items...)
	}
	return &node{op: opSequence, text: "{}", args: bothOfEach(items)}
}

// bothOfEach lists both values of elements such as ±1.
func bothOfEach(items []*node) []*node {
	var out []*node
	for _, n := range items {
		plus, found := choose(n, true)
		if out = append(out, plus); found {
			minus, _ := choose(n, false)
			out = append(out, minus)
		}
	}
	return out
}

// item reads a relation, or a union of the sets that relations describe.
func (p *parser) item() (*node, error) {
	left, err := p.relation()
	for err == nil && p.accept("∪") {
		var right *node
		right, err = p.relation()
		left = union(left, right)
	}
	return left, err
}

// union joins sets; those of a union on the left become its own.
func union(left, right *node) *node {
	if left.op == opUnion {
		return tree(opUnion, append(left.args[:len(left.args):len(left.args)], right)...)
	}
	return tree(opUnion, left, right)
}

// sets reads unions and differences of sets, or an expression.
func (p *parser) sets() (*node, error) {
	left, err := p.intersection()
	for err == nil && maybeSet(left) {
		unites := p.at("∪")
		if !p.accept("∪") && !p.accept("∖") {
			break
		}
		var right *node
		if right, err = p.intersection(); err != nil {
			break
		}
		if unites {
			left = union(left, right)
		} else {
			left = tree(opDifference, left, right)
		}
	}
	return left, err
}

func (p *parser) intersection() (*node, error) {
	left, err := p.quantity()
	for err == nil && maybeSet(left) && p.accept("∩") {
		var right *node
		right, err = p.quantity()
		left = tree(opIntersection, left, right)
	}
	return left, err
}

func (p *parser) relation() (*node, error) {
	start := p.pos
	_ = p.accept("=") || p.accept("≈")
	first, err := p.sets()
	if err != nil {
		return nil, err
	}
	n := tree(opRelation, first)
	for {
		t := p.peek()
		if t.kind != mark || t.text == "" || !strings.Contains("=≈<>≤≥≠:∈", t.text) {
			break
		}
		p.pos++
		next, err := p.sets()
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, next)
		n.text += t.text
	}
	switch {
	case n.text == "":
		return first, nil
	case n.text == "∈":
		if n.args[0].op == opSymbol && (p.at("or") || p.at("and") || start > 0 && strings.Contains("or and", p.tokens[start-1].text)) {
			n.op = opBuilder // one of several conditions
			return n, nil
		}
		return n.args[1], nil
	case strings.Trim(n.text, ":") == "":
		return &node{op: opSequence, text: "::", args: n.args}, nil
	case strings.ContainsAny(n.text, ":∈"):
		return nil, errNotMathematics
	}
	return unfolded(rounding(n)), nil
}

// rounding writes √2 ≈ 1.41, where the last side is a decimal number, as a call of "approx" with both. Any
// other ≈ is an =.
func rounding(n *node) *node {
	last := len(n.args) - 1
	signs := []rune(n.text)
	n.text = strings.ReplaceAll(n.text, "≈", "=")
	if signs[last-1] != '≈' || n.args[last].op != opNumber || hasVariable(n.args[last-1]) || strings.Trim(n.text, "=") != "" {
		return n
	}
	exact := n.args[0]
	if last > 1 {
		exact = &node{op: opRelation, text: n.text[:last-1], args: n.args[:last]}
	}
	return call("approx", exact, n.args[last])
}

// unfolded writes |x| < 2 as −2 < x < 2, |x| > 2 as x < −2 or x > 2, and x ≠ ±1 as x ≠ 1 and x ≠ −1. The
// letters z and w may be complex.
func unfolded(n *node) *node {
	if len(n.args) != 2 {
		return n
	}
	left, right := n.args[0], n.args[1]
	relate := func(signs string, args ...*node) *node { return &node{op: opRelation, text: signs, args: args} }
	if n.text == "≠" {
		if plus, found := choose(right, true); found {
			minus, _ := choose(right, false)
			return tree(opIntersection, relate("≠", left, plus), relate("≠", left, minus))
		}
	}
	if left.op != opCall || left.text != "abs" || hasVariable(right) {
		return n
	}
	x := left.args[0]
	if x.op != opSymbol || strings.Contains("zw", x.text) {
		return n
	}
	switch n.text {
	case "<", "≤":
		return relate(n.text+n.text, tree(opNeg, right), x, right)
	case ">", "≥":
		return tree(opUnion, relate(flipped[n.text], x, tree(opNeg, right)), relate(n.text, x, right))
	}
	return n
}
