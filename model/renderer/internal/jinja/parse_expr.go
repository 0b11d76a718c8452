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
func (p *exprParser) link(length int) error {
	if length > maxChain {
		return p.fail(Limit, "an expression chains more than %d operators", maxChain)
	}
	return nil
}

// enter counts one level of nesting; the caller defers the returned function.
func (p *exprParser) enter() (leave func(), err error) {
	p.nesting++
	if p.nesting > maxNesting {
		err = p.fail(Limit, "expressions and blocks nest deeper than %d", maxNesting)
	}
	return func() { p.nesting-- }, err
}

// expression parses a full expression, including an inline if.
func (p *exprParser) expression() (expr, error) {
	leave, err := p.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	at, unknown := line(p.peek().line), len(p.unknown)
	e, err := p.or()
	for err == nil && p.skipName("if") {
		p.unknown = p.unknown[:unknown] // the part before the if is conditional too
		node := &condition{line: at, then: e}
		p.conditional++
		if node.test, err = p.or(); err == nil && p.skipName("else") {
			node.otherwise, err = p.expression()
		}
		p.conditional--
		e, at = node, line(p.peek().line)
	}
	return e, err
}

// leftAssociative parses operand (op operand)*. match consumes and returns an operator if one comes
// next.
func (p *exprParser) leftAssociative(
	operand func() (expr, error), match func() (string, bool), join func(at line, op string, l, r expr) expr,
) (expr, error) {
	at := line(p.peek().line)
	left, err := operand()
	for length := 0; err == nil; length++ {
		op, ok := match()
		if !ok {
			return left, nil
		}
		if err := p.link(length); err != nil {
			return nil, err
		}
		var right expr
		if right, err = operand(); err == nil {
			left = join(at, op, left, right)
		}
	}
	return nil, err
}

func joinLogic(at line, op string, l, r expr) expr { return &logic{at, op == "and", l, r} }

func joinBinary(at line, op string, l, r expr) expr { return &binary{at, op, l, r} }

func (p *exprParser) or() (expr, error) { return p.leftAssociative(p.and, p.word("or"), joinLogic) }

func (p *exprParser) and() (expr, error) { return p.leftAssociative(p.not, p.word("and"), joinLogic) }

func (p *exprParser) not() (expr, error) {
	leave, err := p.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	if !p.isName("not") {
		return p.comparison()
	}
	at := line(p.take().line)
	operand, err := p.not()
	return &not{at, operand}, err
}

func (p *exprParser) comparison() (expr, error) {
	node := &compare{line: line(p.peek().line)}
	var err error
	node.first, err = p.sum()
	for err == nil {
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
				return node.first, nil
			}
			return node, nil
		}
		var operand expr
		if operand, err = p.sum(); err == nil {
			node.ops, node.rest = append(node.ops, op), append(node.rest, operand)
		}
	}
	return nil, err
}

func (p *exprParser) sum() (expr, error) {
	return p.leftAssociative(p.concat, p.anyOf("+", "-"), joinBinary)
}

func (p *exprParser) concat() (expr, error) {
	at := line(p.peek().line)
	first, err := p.product()
	if err != nil || !p.is("~") {
		return first, err
	}
	node := &concat{at, []expr{first}}
	for p.skip("~") {
		part, err := p.product()
		if err != nil {
			return nil, err
		}
		node.parts = append(node.parts, part)
	}
	return node, nil
}

func (p *exprParser) product() (expr, error) {
	return p.leftAssociative(p.power, p.anyOf("*", "/", "//", "%"), joinBinary)
}

// power is left associative in Jinja.
func (p *exprParser) power() (expr, error) {
	operand := func() (expr, error) { return p.unary(true) }
	return p.leftAssociative(operand, p.anyOf("**"), joinBinary)
}

func (p *exprParser) unary(withFilter bool) (expr, error) {
	leave, err := p.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	var node expr
	if t := p.peek(); t.kind == "-" || t.kind == "+" {
		p.next++
		operand, err := p.unary(false)
		if err != nil {
			return nil, err
		}
		node = &unary{line(t.line), t.kind, operand}
	} else if node, err = p.primary(false); err != nil {
		return nil, err
	}
	if node, err = p.postfix(node); err != nil || !withFilter {
		return node, err
	}
	return p.filterExpression(node)
}

func (p *exprParser) primary(namespaces bool) (expr, error) {
	t := p.take()
	where := line(t.line)
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constant{where, true}, nil
		case "false", "False":
			return &constant{where, false}, nil
		case "none", "None":
			return &constant{where, nil}, nil
		}
		if t.text == "self" {
			return nil, at(failf(Unsupported, "the name 'self', which stands for the template's blocks"), t.line)
		}
		if namespaces && p.skip(".") {
			attr, err := p.expect(tokName)
			return &nsTarget{where, t.text, attr.text}, err
		}
		return &name{where, t.text}, nil
	case tokString:
		value := t.text
		for p.is(tokString) {
			value += p.take().text
		}
		return &constant{where, value}, nil
	case tokInteger:
		v, err := strconv.ParseInt(t.text, 0, 64)
		if t.text[0] == '0' && strings.Trim(t.text, "0") == "" {
			v, err = 0, nil
		}
		if err != nil {
			return nil, p.fail(Unsupported, "the integer %s beyond 64 bits", t.text)
		}
		return &constant{where, v}, nil
	case tokFloat:
		v, _ := strconv.ParseFloat(t.text, 64) // out of range gives an infinity, as in Python
		return &constant{where, v}, nil
	case "(":
		e, err := p.tuple(tupleRules{condition: true, parentheses: true})
		if err == nil {
			_, err = p.expect(")")
		}
		return e, err
	case "[":
		items, err := p.items("]", p.expression)
		return &listLit{where, items}, err
	case "{":
		return p.dict(where)
	}
	return nil, failAt(t, "unexpected %s", describe(t))
}

func failAt(t token, format string, args ...any) error {
	return at(failf(Syntax, format, args...), t.line)
}
