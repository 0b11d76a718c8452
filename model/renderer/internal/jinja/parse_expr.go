package jinja

import (
	"slices"
	"strconv"
	"strings"
)

// maxNesting bounds the nesting of expressions and blocks of a source, maxChain the length of
// a + b + c and of a.b.c, so that no tree is deeper than a stack allows.
const (
	maxNesting = 200
	maxChain   = 500
)

// exprParser parses the expressions of a template by recursive descent. It knows no statements.
type exprParser struct {
	cursor
	nesting     int     // of expressions and blocks
	conditional int     // inside an if: unknown filters and tests fail only when reached, as in Jinja
	unknown     []error // filters and tests that are unknown and not conditional
}

// link checks the length of a chain of operators, subscripts or filters.
func (p *exprParser) link(length int) {
	if length > maxChain {
		panic(p.fail(Limit, "an expression chains more than %d operators", maxChain))
	}
}

// enter counts one level of nesting; the caller defers the returned function.
func (p *exprParser) enter() (leave func()) {
	p.nesting++
	if p.nesting > maxNesting {
		panic(p.fail(Limit, "expressions and blocks nest deeper than %d", maxNesting))
	}
	return func() { p.nesting-- }
}

// expression parses a full expression, including an inline if.
func (p *exprParser) expression() expr {
	leave := p.enter()
	defer leave()
	at, unknown := line(p.peek().line), len(p.unknown)
	e := p.or()
	for p.skipName("if") {
		p.unknown = p.unknown[:unknown] // the part before the if is conditional too
		node := &condition{line: at, then: e}
		p.conditional++
		if node.test = p.or(); p.skipName("else") {
			node.otherwise = p.expression()
		}
		p.conditional--
		e, at = node, line(p.peek().line)
	}
	return e
}

// leftAssociative parses operand (op operand)*. match consumes and returns an operator if one comes
// next.
func (p *exprParser) leftAssociative(
	operand func() expr, match func() (string, bool), join func(at line, op string, l, r expr) expr,
) expr {
	at := line(p.peek().line)
	left := operand()
	for length := 0; ; length++ {
		op, ok := match()
		if !ok {
			return left
		}
		p.link(length)
		left = join(at, op, left, operand())
	}
}

func joinLogic(at line, op string, l, r expr) expr { return &logic{at, op == "and", l, r} }

func joinBinary(at line, op string, l, r expr) expr { return &binary{at, op, l, r} }

func (p *exprParser) or() expr { return p.leftAssociative(p.and, p.word("or"), joinLogic) }

func (p *exprParser) and() expr { return p.leftAssociative(p.not, p.word("and"), joinLogic) }

func (p *exprParser) not() expr {
	leave := p.enter()
	defer leave()
	if !p.isName("not") {
		return p.comparison()
	}
	return &not{line(p.take().line), p.not()}
}

func (p *exprParser) comparison() expr {
	node := &compare{line: line(p.peek().line)}
	node.first = p.sum()
	for {
		op := p.peek().kind
		switch {
		case slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, op):
			p.next++
		case p.skipName("in"):
			op = "in"
		case p.isName("not") && p.lookahead().kind == tokName && p.lookahead().text == "in":
			p.next += 2
			op = "not in"
		default:
			if len(node.ops) == 0 {
				return node.first
			}
			return node
		}
		node.ops, node.rest = append(node.ops, op), append(node.rest, p.sum())
	}
}

func (p *exprParser) sum() expr {
	return p.leftAssociative(p.concat, p.anyOf("+", "-"), joinBinary)
}

func (p *exprParser) concat() expr {
	at := line(p.peek().line)
	first := p.product()
	if !p.is("~") {
		return first
	}
	node := &concat{at, []expr{first}}
	for p.skip("~") {
		node.parts = append(node.parts, p.product())
	}
	return node
}

func (p *exprParser) product() expr {
	return p.leftAssociative(p.power, p.anyOf("*", "/", "//", "%"), joinBinary)
}

// power is left associative in Jinja.
func (p *exprParser) power() expr {
	operand := func() expr { return p.unary(true) }
	return p.leftAssociative(operand, p.anyOf("**"), joinBinary)
}

func (p *exprParser) unary(withFilter bool) expr {
	leave := p.enter()
	defer leave()
	var node expr
	if t := p.peek(); t.kind == "-" || t.kind == "+" {
		p.next++
		node = &unary{line(t.line), t.kind, p.unary(false)}
	} else {
		node = p.primary(false)
	}
	if node = p.postfix(node); !withFilter {
		return node
	}
	return p.filterExpression(node)
}

func (p *exprParser) primary(namespaces bool) expr {
	t := p.take()
	where := line(t.line)
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constant{where, true}
		case "false", "False":
			return &constant{where, false}
		case "none", "None":
			return &constant{where, nil}
		}
		if t.text == "self" {
			panic(at(failf(Unsupported, "the name 'self', which stands for the template's blocks"), t.line))
		}
		if namespaces && p.skip(".") {
			attr := p.expect(tokName)
			return &nsTarget{where, t.text, attr.text}
		}
		return &name{where, t.text}
	case tokString:
		value := t.text
		for p.is(tokString) {
			value += p.take().text
		}
		return &constant{where, value}
	case tokInteger:
		v, err := strconv.ParseInt(t.text, 0, 64)
		if t.text[0] == '0' && strings.Trim(t.text, "0") == "" {
			v, err = 0, nil
		}
		if err != nil {
			panic(p.fail(Unsupported, "the integer %s beyond 64 bits", t.text))
		}
		return &constant{where, v}
	case tokFloat:
		v, _ := strconv.ParseFloat(t.text, 64) // out of range gives an infinity, as in Python
		return &constant{where, v}
	case "(":
		e := p.tuple(tupleRules{condition: true, parentheses: true})
		p.expect(")")
		return e
	case "[":
		return &listLit{where, p.items("]", p.expression)}
	case "{":
		return p.dict(where)
	}
	panic(failAt(t, "unexpected %s", describe(t)))
}

func failAt(t token, format string, args ...any) error {
	return at(failf(Syntax, format, args...), t.line)
}
