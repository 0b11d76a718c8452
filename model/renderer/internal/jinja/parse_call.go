package jinja

func (p *exprParser) call(callee expr) (expr, error) {
	node := &call{line: line(p.peek().line), callee: callee}
	return node, p.arguments(&node.arguments)
}

// arguments parses a parenthesised argument list.
func (p *exprParser) arguments(a *arguments) error {
	open, err := p.expect("(")
	if err != nil {
		return err
	}
	misplaced := func(bad bool) error {
		if bad {
			return failAt(open, "arguments in an order that Python does not allow")
		}
		return nil
	}
	for first := true; !p.is(")"); first = false {
		if !first {
			if _, err := p.expect(","); err != nil {
				return err
			}
			if p.is(")") {
				break
			}
		}
		switch {
		case p.skip("*"):
			if err = misplaced(a.varargs != nil || a.varnamed != nil); err == nil {
				a.varargs, err = p.expression()
			}
		case p.skip("**"):
			if err = misplaced(a.varnamed != nil); err == nil {
				a.varnamed, err = p.expression()
			}
		case p.is(tokName) && p.lookahead().kind == "=":
			if err = misplaced(a.varnamed != nil); err == nil {
				err = p.keyword(a)
			}
		default:
			if err = misplaced(a.varargs != nil || a.varnamed != nil || len(a.named) > 0); err == nil {
				var arg expr
				arg, err = p.expression()
				a.args = append(a.args, arg)
			}
		}
		if err != nil {
			return err
		}
	}
	p.next++
	return nil
}

func (p *exprParser) keyword(a *arguments) error {
	key := p.take()
	p.next++
	for _, earlier := range a.names {
		if earlier == key.text {
			return failAt(key, "keyword argument '%s' is repeated", key.text)
		}
	}
	value, err := p.expression()
	a.names, a.named = append(a.names, key.text), append(a.named, value)
	return err
}

// filters parses any number of |name(args).
func (p *exprParser) filters(node expr) (expr, error) {
	for length := 0; p.skip("|"); length++ {
		err := p.link(length)
		if err == nil {
			node, err = p.oneFilter(node)
		}
		if err != nil {
			return nil, err
		}
	}
	return node, nil
}

func (p *exprParser) oneFilter(object expr) (expr, error) {
	id, at, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	node := &filter{line: at, object: object, name: id}
	if _, known := filters[id]; !known && p.conditional == 0 {
		p.unknown = append(p.unknown, unknownFilter(id, int(at)))
	}
	if p.is("(") {
		err = p.arguments(&node.arguments)
	}
	return node, err
}

func (p *exprParser) test(object expr) (expr, error) {
	at := line(p.take().line)
	negated := p.skipName("not")
	id, _, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	node := &test{line: at, object: object, name: id}
	if _, known := tests[id]; !known && p.conditional == 0 {
		p.unknown = append(p.unknown, unknownTest(id, int(at)))
	}
	switch t := p.peek(); t.kind {
	case "(":
		err = p.arguments(&node.arguments)
	case tokName, tokString, tokInteger, tokFloat, "[", "{":
		if t.kind == tokName && (t.text == "else" || t.text == "or" || t.text == "and") {
			break
		}
		if t.kind == tokName && t.text == "is" {
			return nil, p.fail(Syntax, "tests with 'is' cannot be chained")
		}
		var arg expr
		if arg, err = p.primary(false); err == nil {
			arg, err = p.postfix(arg)
			node.args = []expr{arg}
		}
	}
	if err != nil || !negated {
		return node, err
	}
	return &not{at, node}, nil
}

func (p *exprParser) dottedName() (string, line, error) {
	t, err := p.expect(tokName)
	id := t.text
	for err == nil && p.skip(".") {
		var part token
		part, err = p.expect(tokName)
		id += "." + part.text
	}
	return id, line(t.line), err
}
