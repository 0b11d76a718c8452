package mathequal

import (
	"math/big"
	"strings"
)

// numeral reads a number, a mixed number, a recurring decimal or a number with its base.
func (p *parser) numeral(t token) (*node, error) {
	value, ok := decimal(t.text)
	if !ok {
		return nil, errNotMathematics
	}
	n := &node{op: opNumber, num: value}
	switch next := p.peek(); {
	case p.at("overline") || p.at("dot") || recursInBrackets(p.tokens[p.pos:], t.text):
		return p.recurring(t.text, value)
	case next.kind == mark && next.text == "_":
		return p.based(n)
	case isWhole(t.text) && next.kind == name && next.text == "frac":
		return p.mixedFraction(n)
	case isWhole(t.text) && next.kind == number && next.spaced && isWhole(next.text):
		return p.mixedSlash(n)
	}
	return n, nil
}

// decimal reads digits with a point and an exponent of at most three digits.
func decimal(text string) (*big.Rat, bool) {
	return new(big.Rat).SetString(strings.TrimSuffix(text, "."))
}

func isWhole(text string) bool {
	for i := range len(text) {
		if !isDigit(text, i) {
			return false
		}
	}
	return true
}

func powerOfTen(n int) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// mixedFraction reads 3\frac{1}{2}. If the fraction has other arguments than integers, it is a
// factor, and the caller reads it.
func (p *parser) mixedFraction(whole *node) (*node, error) {
	if !wholeFraction(p.tokens, p.pos+1) {
		return whole, nil
	}
	p.pos++
	fraction, err := p.call("frac")
	return tree(opAdd, whole, fraction), err
}

// wholeFraction reports whether the arguments of a fraction that start at token i are integers.
func wholeFraction(tokens []token, i int) bool {
	is := func(i int, text string) bool {
		if i >= len(tokens) {
			return false
		}
		t := tokens[i]
		return text == "" && t.kind == number && isWhole(t.text) || text != "" && t.text == text
	}
	for range 2 {
		switch {
		case is(i, "{") && is(i+1, "") && is(i+2, "}"):
			i += 3
		case is(i, "") && len(tokens[i].text) > 1:
			return true // \frac12
		case is(i, ""):
			i++
		default:
			return false
		}
	}
	return true
}

// mixedSlash reads 3 1/2.
func (p *parser) mixedSlash(whole *node) (*node, error) {
	upper, _ := decimal(p.peek().text)
	p.pos++
	if !p.accept("/") || p.peek().kind != number || !isWhole(p.peek().text) {
		return nil, errNotMathematics
	}
	lower, _ := decimal(p.peek().text)
	p.pos++
	return tree(opAdd, whole, tree(opDiv, &node{op: opNumber, num: upper}, &node{op: opNumber, num: lower})), nil
}

// variable reads a symbol with its index.
func (p *parser) variable(t token) (*node, error) {
	switch t.text {
	case "∞":
		return tree(opInfinity), nil
	case "∅":
		return &node{op: opSequence, text: "{}"}, nil
	}
	n := &node{op: opSymbol, text: t.text}
	if isSet(n) {
		return p.restricted(n), nil
	}
	if t.text == "C" {
		if n, ok := p.choice(); ok {
			return n, nil
		}
	}
	if p.accept("_") {
		index, err := p.subscript()
		n.text += "_" + index
		return n, err
	}
	return n, nil
}

// subscript reads an index as text.
func (p *parser) subscript() (string, error) {
	if !p.accept("{") {
		t := p.peek()
		p.pos++
		if t.kind == mark {
			return "", errNotMathematics
		}
		return t.text, nil
	}
	var b strings.Builder
	for !p.accept("}") {
		t := p.peek()
		if p.pos++; p.pos > len(p.tokens) || t.text == "{" {
			return "", errNotMathematics
		}
		b.WriteString(t.text)
	}
	return b.String(), nil
}

// call reads the arguments of a function: \frac12, \sqrt[3]{x}, \log_2 8, \sin^2 x, \sin 2x.
func (p *parser) call(function string) (*node, error) {
	switch function {
	case "frac", "binom":
		a, err := p.argument()
		if err != nil {
			return nil, err
		}
		b, err := p.argument()
		if function == "frac" {
			return tree(opDiv, a, b), err
		}
		return call("binom", a, b), err
	case "sqrt":
		return p.root()
	case "root": // \root 3 \of x
		degree, err := p.argument()
		if err != nil || !p.accept("of") {
			return nil, errNotMathematics
		}
		a, err := p.radicand()
		return call("root", a, degree), err
	}
	var base, power *node
	var err error
	if p.accept("_") {
		if base, err = p.argument(); err != nil {
			return nil, err
		}
	}
	if p.accept("^") {
		if power, err = p.argument(); err != nil {
			return nil, err
		}
	}
	arg, err := p.applied()
	if err != nil {
		return nil, err
	}
	n := call(function, arg)
	switch {
	case base != nil && function == "log":
		n = tree(opDiv, call("ln", arg), call("ln", base))
	case base != nil:
		return nil, errNotMathematics
	}
	if power == nil {
		return n, nil
	}
	if inverse := "arc" + function; power.op == opNeg && functions[inverse] == 1 {
		return call(inverse, arg), nil
	}
	return tree(opPow, n, power), nil
}

func (p *parser) root() (*node, error) {
	degree := integer(2)
	if p.accept("[") {
		d, err := p.until("]")
		if err != nil {
			return nil, err
		}
		degree = d
	}
	arg, err := p.radicand()
	return call("root", arg, degree), err
}

// radicand reads what stands under a root: √16 is 4, not √1·6.
func (p *parser) radicand() (*node, error) {
	t := p.peek()
	if t.kind != number {
		return p.argument()
	}
	p.pos++
	value, ok := decimal(t.text)
	if !ok {
		return nil, errNotMathematics
	}
	return &node{op: opNumber, num: value}, nil
}

// argument reads the argument of a LaTeX command: a group, or one sign. Of a number with several
// digits it reads the first.
func (p *parser) argument() (*node, error) {
	t := p.peek()
	if t.kind == number {
		if p.tokens[p.pos].text = t.text[1:]; t.text[1:] == "" {
			p.pos++
		}
		value, ok := decimal(t.text[:1])
		if !ok {
			return nil, errNotMathematics
		}
		return &node{op: opNumber, num: value}, nil
	}
	if p.accept("-") {
		a, err := p.argument()
		return tree(opNeg, a), err
	}
	if p.depth++; p.depth > maxDepth {
		return nil, errNotMathematics
	}
	defer func() { p.depth-- }()
	return p.operand()
}

// applied reads the argument of a function without brackets: factors up to the next operator or
// function.
func (p *parser) applied() (*node, error) {
	if p.at("(") || p.at("{") || p.at("|") {
		return p.operand()
	}
	arg, err := p.expression(bindPower - 1)
	for err == nil && (p.peek().kind == symbol || p.peek().kind == number && arg.op != opNumber) {
		var factor *node
		if factor, err = p.expression(bindPower - 1); err == nil {
			arg = tree(opMul, arg, factor)
		}
	}
	return arg, err
}
