package jinja

// statement parses one block tag up to, not including, its closing %}.
func (p *parser) statement() ([]stmt, error) {
	t := p.peek()
	if t.kind != tokName {
		return nil, p.fail(Syntax, "expected the name of a tag, got %s", describe(t))
	}
	at := line(t.line)
	switch t.text {
	case "if":
		return one(p.ifStatement())
	case "for":
		return one(p.forStatement(at))
	case "set":
		return one(p.set(at))
	case "with":
		return one(p.with(at))
	case "macro":
		return one(p.macro(at))
	case "call":
		return one(p.callBlock(at))
	case "generation":
		return one(p.generation(at))
	case "filter":
		return one(p.filterBlock(at))
	case "print":
		return p.print(at)
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail(Syntax, "'%s' outside a loop", t.text)
		}
		p.next++
		return []stmt{&loopControl{at, t.text == "break"}}, nil
	case "block", "extends", "include", "import", "from", "autoescape":
		return nil, p.fail(Unsupported, "the tag '%s'", t.text)
	}
	return nil, p.unexpectedTag()
}

func one(s stmt, err error) ([]stmt, error) {
	if err != nil {
		return nil, err
	}
	return []stmt{s}, nil
}

// ifStatement parses an if block with its elifs; the cursor is at the word if.
func (p *parser) ifStatement() (*ifStmt, error) {
	p.conditional++
	defer func() { p.conditional-- }()
	root := &ifStmt{line: line(p.take().line)}
	for node := root; ; {
		var err error
		if node.test, err = p.tuple(tupleRules{}); err != nil {
			return nil, err
		}
		var end string
		if node.then, end, err = p.block("elif", "else", "endif"); err != nil {
			return nil, err
		}
		if end == "elif" {
			node = &ifStmt{line: line(p.peek().line)}
			root.elifs = append(root.elifs, node)
			continue
		}
		if end == "else" {
			root.otherwise, _, err = p.block("endif")
		}
		return root, err
	}
}

func (p *parser) forStatement(at line) (stmt, error) {
	p.next++
	node := &forStmt{line: at}
	var err error
	if node.target, err = p.target(false, "in"); err != nil {
		return nil, err
	}
	if err := p.expectName("in"); err != nil {
		return nil, err
	}
	if node.iterable, err = p.tuple(tupleRules{end: "recursive"}); err != nil {
		return nil, err
	}
	defer p.unconditional()()
	if p.skipName("if") {
		if node.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	node.recursive = p.skipName("recursive")
	p.loops++
	body, end, err := p.block("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	node.body = body
	if end == "else" {
		node.otherwise, _, err = p.block("endfor")
	}
	if err == nil && storesLoop([]stmt{node}) {
		err = p.fail(Syntax, "a for loop cannot assign to the special variable 'loop'")
	}
	return node, err
}

func (p *parser) set(at line) (stmt, error) {
	p.next++
	target, err := p.target(true, "")
	if err != nil {
		return nil, err
	}
	if p.skip("=") {
		value, err := p.tuple(tupleRules{condition: true})
		return &setStmt{at, target, value}, err
	}
	node := &setBlock{line: at, target: target}
	defer p.unconditional()()
	if node.filter, err = p.filters(nil); err != nil {
		return nil, err
	}
	node.body, _, err = p.block("endset")
	return node, err
}

func (p *parser) with(at line) (stmt, error) {
	p.next++
	node := &withStmt{line: at}
	for !p.is(tokEnd) {
		if len(node.targets) > 0 {
			if _, err := p.expect(","); err != nil {
				return nil, err
			}
		}
		target, err := p.target(false, "")
		if err != nil {
			return nil, err
		}
		if _, err := p.expect("="); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		node.targets, node.values = append(node.targets, target), append(node.values, value)
	}
	defer p.unconditional()()
	var err error
	node.body, _, err = p.block("endwith")
	return node, err
}

func (p *parser) filterBlock(at line) (stmt, error) {
	p.next++
	node := &filterBlock{line: at}
	defer p.unconditional()()
	var err error
	if node.filter, err = p.oneFilter(nil); err != nil {
		return nil, err
	}
	if node.filter, err = p.filters(node.filter); err != nil {
		return nil, err
	}
	node.body, _, err = p.block("endfilter")
	return node, err
}

func (p *parser) print(at line) (out []stmt, err error) {
	p.next++
	for !p.is(tokEnd) {
		if len(out) > 0 {
			if _, err := p.expect(","); err != nil {
				return nil, err
			}
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		out = append(out, &output{at, value})
	}
	return out, nil
}
