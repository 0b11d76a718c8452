package mathequal

import "strings"

// expression reads operators that bind tighter than power.
func (p *parser) expression(power int) (*node, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errNotMathematics
	}
	defer func() { p.depth-- }()
	left, err := p.operand()
	for err == nil {
		op, binds := p.operator(left)
		if binds <= power {
			break
		}
		left, err = p.apply(left, op)
	}
	return left, err
}

// operator returns the next operator after left and its binding power, 0 if the expression ends
// here. "juxtaposed" is a product without a sign.
func (p *parser) operator(left *node) (op string, binds int) {
	t := p.peek()
	if t.kind == mark {
		switch t.text {
		case "+", "-", "±", "∓":
			return t.text, bindSum
		case "*":
			return t.text, bindProduct
		case "/":
			if p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].kind == word {
				return "", 0 // 5 km/hour
			}
			return t.text, bindProduct
		case "^":
			return t.text, bindPower
		case "!", "%", "°", "'":
			return t.text, bindPostfix
		}
	}
	if p.startsOperand(t) && !(t.kind == number && left.op == opNumber) {
		return "juxtaposed", bindProduct
	}
	return "", 0
}

func (p *parser) startsOperand(t token) bool {
	switch t.kind {
	case number, symbol, name:
		return true
	case mark:
		if t.text == "(" && p.pos+1 < len(p.tokens) && p.tokens[p.pos+1].kind == word && len(p.tokens[p.pos+1].text) > 1 {
			return false // 5 (apples)
		}
		return t.text != "" && (strings.Contains("([{⌊⌈", t.text) || t.text == "|" && p.bars == 0)
	}
	return false
}

func (p *parser) apply(left *node, op string) (*node, error) {
	if op != "juxtaposed" {
		p.pos++
	}
	switch op {
	case "!":
		return tree(opFactorial, left), nil
	case "%":
		return tree(opPercent, left), nil
	case "°":
		return tree(opDegree, left), nil
	case "'":
		return p.prime(left)
	case "^":
		if o := letterO(p.tokens, p.pos); o > 0 && left.op == opNumber {
			p.pos += o
			return tree(opDegree, left), nil
		}
		right, err := p.expression(bindPower - 1)
		return tree(opPow, left, right), err
	}
	binds := bindProduct
	if strings.Contains("+-±∓", op) {
		binds = bindSum
	}
	right, err := p.expression(binds)
	if err != nil {
		return nil, err
	}
	switch op {
	case "+":
		return tree(opAdd, left, right), nil
	case "-":
		return tree(opSub, left, right), nil
	case "±", "∓":
		return plusMinus(op, left, right), nil
	case "/":
		return tree(opDiv, left, right), nil
	}
	return tree(opMul, left, right), nil
}

// letterO returns the number of tokens of o or {o} at i, which a raised o has for a degree sign, 0 if
// there is none.
func letterO(tokens []token, i int) int {
	is := func(i int, text string) bool { return i < len(tokens) && tokens[i].text == text }
	switch {
	case is(i, "o"):
		return 1
	case is(i, "{") && is(i+1, "o") && is(i+2, "}"):
		return 3
	}
	return 0
}

func plusMinus(sign string, left, right *node) *node {
	n := tree(opPlusMinus, left, right)
	n.text = "+"
	if sign == "∓" {
		n.text = "-"
	}
	return n
}

// operand reads the text before an operator.
func (p *parser) operand() (*node, error) {
	t := p.peek()
	p.pos++
	switch t.kind {
	case number:
		return p.numeral(t)
	case symbol:
		return p.variable(t)
	case name:
		return p.call(t.text)
	case word:
		if len(t.text) == 1 { // a letter that names a choice
			return p.variable(t)
		}
		return nil, errNotMathematics
	}
	switch t.text {
	case "_", "^":
		return p.combinations()
	case "overline", "dot", "hat", "vec", "tilde":
		return p.accent(t.text)
	case "-":
		a, err := p.expression(bindProduct)
		return tree(opNeg, a), err
	case "+":
		return p.expression(bindProduct)
	case "±", "∓":
		a, err := p.expression(bindProduct)
		return plusMinus(t.text, integer(0), a), err
	case "|":
		p.bars++
		a, err := p.until("|")
		p.bars--
		return call("abs", a), err
	case "⌊":
		a, err := p.until("⌋")
		return call("floor", a), err
	case "⌈":
		a, err := p.until("⌉")
		return call("ceil", a), err
	case "begin":
		return p.matrix()
	case "(", "[", "{", `\{`, "⟨":
		n, err := p.bracket(t.text)
		if err == nil && n.op == opNumber && p.at("_") {
			return p.based(n)
		}
		return n, err
	}
	return nil, errNotMathematics
}

func call(function string, args ...*node) *node { return &node{op: opCall, text: function, args: args} }

// until reads an expression and the mark that closes it.
func (p *parser) until(closing string) (*node, error) {
	a, err := p.expression(0)
	if err != nil || !p.accept(closing) {
		return nil, errNotMathematics
	}
	return a, nil
}

// bracket reads the group, tuple, interval or set that an opening bracket begins.
func (p *parser) bracket(open string) (*node, error) {
	if open == `\{` && p.accept(`\}`) {
		return &node{op: opSequence, text: "{}"}, nil
	}
	if bar, ok := builderBar(p.tokens, p.pos, open); ok {
		return p.builder(bar)
	}
	items, joint, err := p.list()
	if err != nil {
		return nil, err
	}
	closing := p.peek().text
	p.pos++
	n := &node{op: opSequence, args: items}
	switch open + closing {
	case "()", "{}":
		if n := joined(items, joint); n.op != opSequence || len(items) == 1 {
			return n, nil
		}
		n.text = open + closing
	case `\{\}`:
		n.text, n.args = "{}", bothOfEach(items)
	case "(]", "[)":
		if len(items) != 2 {
			return nil, errNotMathematics
		}
		n.text = open + closing
	case "[]", "⟨⟩":
		if len(items) == 1 && items[0].text == "##" { // brackets around a matrix
			return items[0], nil
		}
		n.text = open + closing
	default:
		return nil, errNotMathematics
	}
	return n, nil
}

// matrix reads rows up to \end.
func (p *parser) matrix() (*node, error) {
	m := &node{op: opSequence, text: "##"}
	row := &node{op: opSequence, text: "##"}
	for cells := 0; cells < maxItems; cells++ {
		cell, err := p.expression(0)
		if err != nil {
			return nil, err
		}
		row.args = append(row.args, cell)
		if p.accept("&") {
			continue
		}
		m.args = append(m.args, row)
		row = &node{op: opSequence, text: "##"}
		newline := p.accept(`\\`)
		if p.accept("end") {
			return m, nil
		}
		if !newline {
			break
		}
	}
	return nil, errNotMathematics
}
