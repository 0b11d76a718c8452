package mathequal

import (
	"slices"
	"strings"
	"unicode"
)

// builderBar returns the position of the colon or the bar of a set such as {x : x > 2}, whose opening
// brace stands before pos.
func builderBar(tokens []token, pos int, open string) (int, bool) {
	if open != `\{` {
		return 0, false
	}
	depth, bars, bar, colon := 0, 0, -1, -1
	for i := pos; i < len(tokens) && depth >= 0; i++ {
		if tokens[i].kind != mark {
			continue
		}
		switch tokens[i].text {
		case "(", "[", "{", `\{`:
			depth++
		case ")", "]", "}", `\}`:
			depth--
		case ":":
			if depth == 0 && colon < 0 {
				colon = i
			}
		case "|":
			if depth == 0 && bar < 0 {
				bar = i
			}
			bars++
		}
	}
	if bars%2 == 0 || colon >= 0 && colon < bar {
		bar = colon
	}
	isVariable := func(t token) bool { return t.kind == symbol }
	return bar, bar > pos && slices.ContainsFunc(tokens[pos:bar], isVariable)
}

// builder reads a set such as {x ∈ A : x > 2} behind its opening brace.
func (p *parser) builder(bar int) (*node, error) {
	p.bars++
	head, err := p.expression(0)
	n := tree(opBuilder, head)
	if err == nil && p.accept("∈") {
		var domain *node
		domain, err = p.sets()
		n.args = append(n.args, domain)
	}
	p.bars--
	if err != nil || p.pos != bar {
		return nil, errNotMathematics
	}
	p.pos++
	items, joint, err := p.list()
	if err != nil || !p.accept(`\}`) {
		return nil, errNotMathematics
	}
	if joint == "," { // all hold
		n.args = append(n.args, items...)
	} else {
		n.args = append(n.args, joined(items, joint))
	}
	return n, nil
}

// restrictions are the signs that restrict a set of numbers, as in ℝ^+ or ℤ_{\ge 0}.
var restrictions = map[string]string{
	"+": "<", ">0": "<", "≥0": "≤", "-": ">", "<0": ">", "≤0": "≥", "*": "≠", "≠0": "≠", "0+": "≤",
}

// restricted reads such a sign behind a set of numbers.
func (p *parser) restricted(n *node) *node {
	text, end := indexAt(p.tokens, p.pos)
	if more, next := indexAt(p.tokens, end); more == "0" || more != "" && text == "0" { // ℝ^+_0, ℝ_0^+
		text, end = "0"+strings.Trim(text+more, "0"), next
	}
	sign, ok := restrictions[text]
	if !ok {
		return n
	}
	p.pos = end
	x := &node{op: opSymbol, text: "x"}
	condition := &node{op: opRelation, text: sign, args: []*node{integer(0), x}}
	return tree(opBuilder, x, n, condition)
}

// indexAt returns the text of an index or exponent whose sign stands at i, and where it ends; "" if
// there is none.
func indexAt(tokens []token, i int) (text string, end int) {
	if i+1 >= len(tokens) || tokens[i].text != "^" && tokens[i].text != "_" {
		return "", i
	}
	if tokens[i+1].text != "{" {
		return tokens[i+1].text, i + 2
	}
	for end = i + 2; end < len(tokens) && tokens[end].text != "}"; end++ {
		text += tokens[end].text
	}
	return text, min(end+1, len(tokens))
}

// bound returns what a set builder holds with one name for the variable that it binds, if there is
// only one.
func bound(n *node) []*node {
	c := newComparer()
	c.collect(n.args[0])
	if len(c.names) != 1 {
		return n.args
	}
	return rename(n, c.names[0]).args
}

// rename returns a tree with the name of a bound variable in place of another.
func rename(n *node, name string) *node {
	out := &node{op: n.op, num: n.num, text: n.text}
	if n.op == opSymbol && n.text == name {
		out.text = "bound"
	}
	for _, a := range n.args {
		out.args = append(out.args, rename(a, name))
	}
	return out
}

// isSet reports whether n can only be a set.
func isSet(n *node) bool {
	switch n.op {
	case opUnion, opIntersection, opDifference, opBuilder:
		return true
	case opSymbol:
		return strings.HasPrefix(n.text, `\mathbb `)
	case opSequence:
		return n.text == "(]" || n.text == "[)" || n.text == "{}" && slices.ContainsFunc(n.args, isInequality)
	case opRelation:
		return isInequality(n)
	case opSub, opDiv:
		left := n.args[0]
		return isSet(left) || left.op == opSequence && left.text == "{}" && n.args[1].op == opSequence
	}
	inner, ok := complement(n)
	return ok && isSet(inner)
}

// maybeSet reports whether n may be a set, as a letter may.
func maybeSet(n *node) bool {
	return isComplement(n) || isSet(n) || n.op == opSequence || n.op == opSymbol
}

// complement returns the set whose complement n is: that under a bar or before the exponent c, or
// the letter with a prime.
func complement(n *node) (*node, bool) {
	switch {
	case n.op == opPow && n.args[1].op == opSymbol && strings.EqualFold(n.args[1].text, "c"), n.op == opCall && n.text == "overline":
		return n.args[0], n.args[0].op != opSymbol || isCapital(n.args[0].text)
	case n.op != opSymbol:
		return nil, false
	}
	letter := strings.TrimSuffix(strings.TrimPrefix(n.text, "overline "), "'")
	return &node{op: opSymbol, text: letter}, len(letter) < len(n.text) && isCapital(letter)
}

// isCapital reports whether a letter is a capital, as the letters of sets are.
func isCapital(letter string) bool { return letter != "" && unicode.IsUpper(firstRune(letter)) }

func isComplement(n *node) bool {
	_, ok := complement(n)
	return ok
}

func isInequality(n *node) bool {
	return n.op == opRelation && strings.Trim(n.text, "<>≤≥≠") == ""
}
