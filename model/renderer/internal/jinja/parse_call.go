package jinja

func (p *exprParser) call(callee expr) expr {
	node := &call{line: line(p.peek().line), callee: callee}
	p.arguments(&node.arguments)
	return node
}

// arguments parses a parenthesised argument list.
func (p *exprParser) arguments(a *arguments) {
	open := p.expect("(")
	misplaced := func(bad bool) {
		if bad {
			panic(failAt(open, "arguments in an order that Python does not allow"))
		}
	}
	for first := true; !p.is(")"); first = false {
		if !first {
			p.expect(",")
			if p.is(")") {
				break
			}
		}
		switch {
		case p.skip("*"):
			misplaced(a.varargs != nil || a.varnamed != nil)
			a.varargs = p.expression()
		case p.skip("**"):
			misplaced(a.varnamed != nil)
			a.varnamed = p.expression()
		case p.is(tokName) && p.lookahead().kind == "=":
			misplaced(a.varnamed != nil)
			p.keyword(a)
		default:
			misplaced(a.varargs != nil || a.varnamed != nil || len(a.named) > 0)
			a.args = append(a.args, p.expression())
		}
	}
	p.next++
}

func (p *exprParser) keyword(a *arguments) {
	key := p.take()
	p.next++
	for _, earlier := range a.names {
		if earlier == key.text {
			panic(failAt(key, "keyword argument '%s' is repeated", key.text))
		}
	}
	a.names, a.named = append(a.names, key.text), append(a.named, p.expression())
}

// filters parses any number of |name(args).
func (p *exprParser) filters(node expr) expr {
	for length := 0; p.skip("|"); length++ {
		p.link(length)
		node = p.oneFilter(node)
	}
	return node
}

func (p *exprParser) oneFilter(object expr) expr {
	id, at := p.dottedName()
	node := &filter{line: at, object: object, name: id}
	if _, known := filters[id]; !known && p.conditional == 0 {
		p.unknown = append(p.unknown, unknownFilter(id, int(at)))
	}
	if p.is("(") {
		p.arguments(&node.arguments)
	}
	return node
}

func (p *exprParser) test(object expr) expr {
	at := line(p.take().line)
	negated := p.skipName("not")
	id, _ := p.dottedName()
	node := &test{line: at, object: object, name: id}
	if _, known := tests[id]; !known && p.conditional == 0 {
		p.unknown = append(p.unknown, unknownTest(id, int(at)))
	}
	switch t := p.peek(); t.kind {
	case "(":
		p.arguments(&node.arguments)
	case tokName, tokString, tokInteger, tokFloat, "[", "{":
		if t.kind == tokName && (t.text == "else" || t.text == "or" || t.text == "and") {
			break
		}
		if t.kind == tokName && t.text == "is" {
			panic(p.fail(Syntax, "tests with 'is' cannot be chained"))
		}
		node.args = []expr{p.postfix(p.primary(false))}
	}
	if !negated {
		return node
	}
	return &not{at, node}
}

func (p *exprParser) dottedName() (string, line) {
	t := p.expect(tokName)
	id := t.text
	for p.skip(".") {
		id += "." + p.expect(tokName).text
	}
	return id, line(t.line)
}
