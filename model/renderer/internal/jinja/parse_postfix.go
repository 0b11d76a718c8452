package jinja

import "strconv"

// tupleRules say where a tuple may stand and what its items are.
type tupleRules struct {
	simple      bool   // items are names and literals only: an assignment target
	namespaces  bool   // ns.attr is an item
	condition   bool   // items may be inline ifs
	parentheses bool   // () is the empty tuple
	end         string // a name that ends it
}

// tuple parses one expression, or a tuple where commas follow.
func (p *exprParser) tuple(rules tupleRules) (expr, error) {
	parseItem := p.or
	if rules.simple {
		parseItem = func() (expr, error) { return p.primary(rules.namespaces) }
	} else if rules.condition {
		parseItem = p.expression
	}
	at := line(p.peek().line)
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			if _, err := p.expect(","); err != nil {
				return nil, err
			}
		}
		if p.is(tokVarEnd) || p.is(tokEnd) || p.is(")") || rules.end != "" && p.isName(rules.end) {
			break
		}
		e, err := parseItem()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.is(",") {
			break
		}
		isTuple = true
	}
	if !isTuple && len(items) == 1 {
		return items[0], nil
	}
	if !isTuple && !rules.parentheses {
		return nil, p.fail(Syntax, "expected an expression, got %s", describe(p.peek()))
	}
	return &tupleLit{at, items}, nil
}

// items parses a comma separated list up to the closing token, a trailing comma allowed.
func (p *exprParser) items(end string, parseItem func() (expr, error)) (items []expr, err error) {
	for !p.is(end) {
		if len(items) > 0 {
			if _, err := p.expect(","); err != nil {
				return nil, err
			}
			if p.is(end) {
				break
			}
		}
		e, err := parseItem()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	p.next++
	return items, nil
}

func (p *exprParser) dict(at line) (expr, error) {
	node := &dictLit{line: at}
	_, err := p.items("}", func() (expr, error) {
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if _, err := p.expect(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		node.keys, node.values = append(node.keys, key), append(node.values, value)
		return key, err
	})
	return node, err
}

func (p *exprParser) postfix(node expr) (expr, error) {
	for length := 0; ; length++ {
		err := p.link(length)
		if err != nil {
			return nil, err
		}
		switch p.peek().kind {
		case ".", "[":
			node, err = p.subscript(node)
		case "(":
			node, err = p.call(node)
		default:
			return node, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *exprParser) filterExpression(node expr) (expr, error) {
	for length := 0; ; length++ {
		err := p.link(length)
		if err != nil {
			return nil, err
		}
		switch {
		case p.skip("|"):
			node, err = p.oneFilter(node)
		case p.isName("is"):
			node, err = p.test(node)
		case p.is("("):
			node, err = p.call(node)
		default:
			return node, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *exprParser) subscript(node expr) (expr, error) {
	t := p.take()
	at := line(t.line)
	if t.kind == "." {
		attr := p.take()
		switch attr.kind {
		case tokName:
			return &attribute{at, node, attr.text}, nil
		case tokInteger:
			index, err := strconv.ParseInt(attr.text, 0, 64)
			if err != nil {
				return nil, failAt(attr, "bad index %s", attr.text)
			}
			return &item{at, node, &constant{at, index}}, nil
		}
		return nil, failAt(attr, "expected a name or number after '.', got %s", describe(attr))
	}
	if p.is("]") {
		p.next++
		return &item{at, node, &tupleLit{line: at}}, nil
	}
	subscripted, err := p.indexOrSlice(at, node)
	if err != nil || p.skip("]") {
		return subscripted, err
	}
	return nil, p.fail(Unsupported, "a subscript of several parts: expected ']', got %s", describe(p.peek()))
}

// indexOrSlice parses the text between brackets and returns node[key] or node[start:stop:step].
func (p *exprParser) indexOrSlice(at line, node expr) (_ expr, err error) {
	s := &slice{line: at, object: node}
	if !p.is(":") {
		if s.start, err = p.expression(); err != nil {
			return nil, err
		}
		if !p.is(":") {
			return &item{at, node, s.start}, nil
		}
	}
	p.next++
	if !p.is(":") && !p.is("]") && !p.is(",") {
		if s.stop, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.skip(":") && !p.is("]") && !p.is(",") {
		s.step, err = p.expression()
	}
	return s, err
}
