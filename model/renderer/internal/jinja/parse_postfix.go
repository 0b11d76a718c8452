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
func (p *exprParser) tuple(rules tupleRules) expr {
	parseItem := p.or
	if rules.simple {
		parseItem = func() expr { return p.primary(rules.namespaces) }
	} else if rules.condition {
		parseItem = p.expression
	}
	at := line(p.peek().line)
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 {
			p.expect(",")
		}
		if p.is(tokVarEnd) || p.is(tokEnd) || p.is(")") || rules.end != "" && p.isName(rules.end) {
			break
		}
		items = append(items, parseItem())
		if !p.is(",") {
			break
		}
		isTuple = true
	}
	if !isTuple && len(items) == 1 {
		return items[0]
	}
	if !isTuple && !rules.parentheses {
		panic(p.fail(Syntax, "expected an expression, got %s", describe(p.peek())))
	}
	return &tupleLit{at, items}
}

// items parses a comma separated list up to the closing token, a trailing comma allowed.
func (p *exprParser) items(end string, parseItem func() expr) (items []expr) {
	for !p.is(end) {
		if len(items) > 0 {
			p.expect(",")
			if p.is(end) {
				break
			}
		}
		items = append(items, parseItem())
	}
	p.next++
	return items
}

func (p *exprParser) dict(at line) expr {
	node := &dictLit{line: at}
	p.items("}", func() expr {
		key := p.expression()
		p.expect(":")
		value := p.expression()
		node.keys, node.values = append(node.keys, key), append(node.values, value)
		return key
	})
	return node
}

func (p *exprParser) postfix(node expr) expr {
	for length := 0; ; length++ {
		p.link(length)
		switch p.peek().kind {
		case ".", "[":
			node = p.subscript(node)
		case "(":
			node = p.call(node)
		default:
			return node
		}
	}
}

func (p *exprParser) filterExpression(node expr) expr {
	for length := 0; ; length++ {
		p.link(length)
		switch {
		case p.skip("|"):
			node = p.oneFilter(node)
		case p.isName("is"):
			node = p.test(node)
		case p.is("("):
			node = p.call(node)
		default:
			return node
		}
	}
}

func (p *exprParser) subscript(node expr) expr {
	t := p.take()
	at := line(t.line)
	if t.kind == "." {
		attr := p.take()
		switch attr.kind {
		case tokName:
			return &attribute{at, node, attr.text}
		case tokInteger:
			index, err := strconv.ParseInt(attr.text, 0, 64)
			if err != nil {
				panic(failAt(attr, "bad index %s", attr.text))
			}
			return &item{at, node, &constant{at, index}}
		}
		panic(failAt(attr, "expected a name or number after '.', got %s", describe(attr)))
	}
	if p.is("]") {
		p.next++
		return &item{at, node, &tupleLit{line: at}}
	}
	subscripted := p.indexOrSlice(at, node)
	if p.skip("]") {
		return subscripted
	}
	panic(p.fail(Unsupported, "a subscript of several parts: expected ']', got %s", describe(p.peek())))
}

// indexOrSlice parses the text between brackets and returns node[key] or node[start:stop:step].
func (p *exprParser) indexOrSlice(at line, node expr) (_ expr) {
	s := &slice{line: at, object: node}
	if !p.is(":") {
		s.start = p.expression()
		if !p.is(":") {
			return &item{at, node, s.start}
		}
	}
	p.next++
	if !p.is(":") && !p.is("]") && !p.is(",") {
		s.stop = p.expression()
	}
	if p.skip(":") && !p.is("]") && !p.is(",") {
		s.step = p.expression()
	}
	return s
}
