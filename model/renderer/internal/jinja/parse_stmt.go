package jinja

// statement parses one block tag up to, not including, its closing %}.
func (p *parser) statement() []stmt {
	t := p.peek()
	if t.kind != tokName {
		panic(p.fail(Syntax, "expected the name of a tag, got %s", describe(t)))
	}
	at := line(t.line)
	switch t.text {
	case "if":
		return []stmt{p.ifStatement()}
	case "for":
		return []stmt{p.forStatement(at)}
	case "set":
		return []stmt{p.set(at)}
	case "with":
		return []stmt{p.with(at)}
	case "macro":
		return []stmt{p.macro(at)}
	case "call":
		return []stmt{p.callBlock(at)}
	case "generation":
		return []stmt{p.generation(at)}
	case "filter":
		return []stmt{p.filterBlock(at)}
	case "print":
		return p.print(at)
	case "break", "continue":
		if p.loops == 0 {
			panic(p.fail(Syntax, "'%s' outside a loop", t.text))
		}
		p.next++
		return []stmt{&loopControl{at, t.text == "break"}}
	case "block", "extends", "include", "import", "from", "autoescape":
		panic(p.fail(Unsupported, "the tag '%s'", t.text))
	}
	panic(p.unexpectedTag())
}

// ifStatement parses an if block with its elifs; the cursor is at the word if.
func (p *parser) ifStatement() *ifStmt {
	p.conditional++
	defer func() { p.conditional-- }()
	root := &ifStmt{line: line(p.take().line)}
	for node := root; ; {
		node.test = p.tuple(tupleRules{})
		var end string
		node.then, end = p.block("elif", "else", "endif")
		if end == "elif" {
			node = &ifStmt{line: line(p.peek().line)}
			root.elifs = append(root.elifs, node)
			continue
		}
		if end == "else" {
			root.otherwise, _ = p.block("endif")
		}
		return root
	}
}

func (p *parser) forStatement(at line) stmt {
	p.next++
	node := &forStmt{line: at}
	node.target = p.target(false, "in")
	p.expectName("in")
	node.iterable = p.tuple(tupleRules{end: "recursive"})
	defer p.unconditional()()
	if p.skipName("if") {
		node.test = p.expression()
	}
	node.recursive = p.skipName("recursive")
	p.loops++
	var end string
	node.body, end = p.block("endfor", "else")
	p.loops--
	if end == "else" {
		node.otherwise, _ = p.block("endfor")
	}
	if storesLoop([]stmt{node}) {
		panic(p.fail(Syntax, "a for loop cannot assign to the special variable 'loop'"))
	}
	return node
}

func (p *parser) set(at line) stmt {
	p.next++
	target := p.target(true, "")
	if p.skip("=") {
		return &setStmt{at, target, p.tuple(tupleRules{condition: true})}
	}
	node := &setBlock{line: at, target: target}
	defer p.unconditional()()
	node.filter = p.filters(nil)
	node.body, _ = p.block("endset")
	return node
}

func (p *parser) with(at line) stmt {
	p.next++
	node := &withStmt{line: at}
	for !p.is(tokEnd) {
		if len(node.targets) > 0 {
			p.expect(",")
		}
		node.targets = append(node.targets, p.target(false, ""))
		p.expect("=")
		node.values = append(node.values, p.expression())
	}
	defer p.unconditional()()
	node.body, _ = p.block("endwith")
	return node
}

func (p *parser) filterBlock(at line) stmt {
	p.next++
	node := &filterBlock{line: at}
	defer p.unconditional()()
	node.filter = p.filters(p.oneFilter(nil))
	node.body, _ = p.block("endfilter")
	return node
}

func (p *parser) print(at line) (out []stmt) {
	p.next++
	for !p.is(tokEnd) {
		if len(out) > 0 {
			p.expect(",")
		}
		out = append(out, &output{at, p.expression()})
	}
	return out
}
