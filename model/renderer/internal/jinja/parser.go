package jinja

import "slices"

// parser parses the statements of a template by recursive descent.
type parser struct {
	exprParser
	loops int // enclosing loops that break and continue may leave
}

func parse(src string) ([]stmt, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{exprParser: exprParser{cursor: cursor{tokens: tokens}}}
	body, err := p.statements()
	if err == nil && p.peek().kind != tokEOF {
		err = p.unexpectedTag()
	}
	if err == nil && len(p.unknown) > 0 {
		err = p.unknown[0]
	}
	if err != nil {
		return nil, at(err, p.peek().line)
	}
	return body, nil
}

// statements parses up to a tag whose name is in end, which it leaves unread, or to the end of the
// source.
func (p *parser) statements(end ...string) ([]stmt, error) {
	leave, err := p.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	var body []stmt
	for !p.is(tokEOF) {
		t := p.take()
		switch t.kind {
		case tokData:
			body = append(body, &text{line(t.line), t.text})
			continue
		case tokVarBegin:
			value, err := p.tuple(tupleRules{condition: true})
			if err != nil {
				return nil, err
			}
			if _, err := p.expect(tokVarEnd); err != nil {
				return nil, err
			}
			body = append(body, &output{line(t.line), value})
			continue
		}
		if p.is(tokName) && slices.Contains(end, p.peek().text) {
			return body, nil
		}
		parsed, err := p.statement()
		if err != nil {
			return nil, err
		}
		if _, err := p.expect(tokEnd); err != nil {
			return nil, err
		}
		body = append(body, parsed...)
	}
	if len(end) > 0 {
		return nil, p.fail(Syntax, "the template ends inside a block: expected '%s'", end[len(end)-1])
	}
	return body, nil
}

// block parses the body of a tag, from the end of the tag to one of the names in end, which it
// consumes and returns.
func (p *parser) block(end ...string) (body []stmt, ender string, err error) {
	p.skip(":")
	if _, err := p.expect(tokEnd); err != nil {
		return nil, "", err
	}
	body, err = p.statements(end...)
	if err != nil {
		return nil, "", err
	}
	return body, p.take().text, nil
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
