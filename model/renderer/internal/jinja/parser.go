package jinja

import "slices"

// parser parses the statements of a template by recursive descent.
type parser struct {
	exprParser
	loops int // enclosing loops that break and continue may leave
}

func parse(src string) []stmt {
	tokens := lex(src)
	p := &parser{exprParser: exprParser{cursor: cursor{tokens: tokens}}}
	defer addLine(func() int { return p.peek().line })
	body := p.statements()
	switch {
	case p.peek().kind != tokEOF:
		panic(p.unexpectedTag())
	case len(p.unknown) > 0:
		panic(p.unknown[0])
	}
	return body
}

// statements parses up to a tag whose name is in end, which it leaves unread, or to the end of the
// source.
func (p *parser) statements(end ...string) []stmt {
	leave := p.enter()
	defer leave()
	var body []stmt
	for !p.is(tokEOF) {
		t := p.take()
		switch t.kind {
		case tokData:
			body = append(body, &text{line(t.line), t.text})
			continue
		case tokVarBegin:
			value := p.tuple(tupleRules{condition: true})
			p.expect(tokVarEnd)
			body = append(body, &output{line(t.line), value})
			continue
		}
		if p.is(tokName) && slices.Contains(end, p.peek().text) {
			return body
		}
		body = append(body, p.statement()...)
		p.expect(tokEnd)
	}
	if len(end) > 0 {
		panic(p.fail(Syntax, "the template ends inside a block: expected '%s'", end[len(end)-1]))
	}
	return body
}

// block parses the body of a tag, from the end of the tag to one of the names in end, which it
// consumes and returns.
func (p *parser) block(end ...string) (body []stmt, ender string) {
	p.skip(":")
	p.expect(tokEnd)
	body = p.statements(end...)
	return body, p.take().text
}

// unconditional begins a part that Jinja compiles into a frame of its own: in it an unknown filter
// or test is an error even inside an if. The caller defers the returned function, which ends the
// part.
func (p *parser) unconditional() (leave func()) {
	outer := p.conditional
	p.conditional = 0
	return func() { p.conditional = outer }
}

func (p *parser) unexpectedTag() error {
	return p.fail(Syntax, "unexpected tag %s", describe(p.peek()))
}
