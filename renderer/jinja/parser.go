package jinja

import "slices"

// maxNesting bounds the nesting of expressions and blocks of a source, maxChain the length of a + b + c and of a.b.c,
// so that no tree is deeper than a stack allows.
const (
	maxNesting = 200
	maxChain   = 500
)

// parser builds the tree of a template by recursive descent over its tokens.
type parser struct {
	tokens      []token
	next        int
	nesting     int
	conditional int     // inside an if: unknown filters and tests fail only when reached, as in Jinja
	unknown     []error // filters and tests that are unknown and not conditional
	loops       int     // enclosing loops that break and continue may leave
}

func parse(src string) ([]stmt, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
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

func (p *parser) peek() token { return p.tokens[p.next] }

func (p *parser) lookahead() token { return p.tokens[min(p.next+1, len(p.tokens)-1)] }

func (p *parser) take() token {
	t := p.tokens[p.next]
	if t.kind != tokEOF {
		p.next++
	}
	return t
}

func (p *parser) is(kind string) bool { return p.peek().kind == kind }

func (p *parser) isName(word string) bool { return p.is(tokName) && p.peek().text == word }

func (p *parser) skip(kind string) bool {
	if p.is(kind) {
		p.next++
		return true
	}
	return false
}

func (p *parser) skipName(word string) bool {
	if p.isName(word) {
		p.next++
		return true
	}
	return false
}

func (p *parser) expect(kind string) (token, error) {
	if !p.is(kind) {
		return token{}, p.wanted(kind)
	}
	return p.take(), nil
}

func (p *parser) expectName(word string) error {
	if !p.skipName(word) {
		return p.wanted(word)
	}
	return nil
}

func (p *parser) wanted(what string) error {
	return p.fail(Syntax, "expected %s, got %s", quoteKind(what), describe(p.peek()))
}

func (p *parser) fail(kind Kind, format string, args ...any) error {
	return at(failf(kind, format, args...), p.peek().line)
}

func quoteKind(kind string) string {
	switch kind {
	case tokName, tokString, tokInteger, tokFloat, tokData, tokEOF:
		return kind
	}
	return "'" + kind + "'"
}

func describe(t token) string {
	switch t.kind {
	case tokName, tokInteger, tokFloat:
		return "'" + t.text + "'"
	}
	return quoteKind(t.kind)
}

// link checks the length of a chain of operators, subscripts or filters.
func (p *parser) link(length int) error {
	if length > maxChain {
		return p.fail(Limit, "an expression chains more than %d operators", maxChain)
	}
	return nil
}

// enter counts one level of nesting; the caller defers the returned function.
func (p *parser) enter() (leave func(), err error) {
	p.nesting++
	if p.nesting > maxNesting {
		err = p.fail(Limit, "expressions and blocks nest deeper than %d", maxNesting)
	}
	return func() { p.nesting-- }, err
}

// statements parses up to a tag that is one of the names in end, which it leaves unread, or to the end of the source.
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

// block parses the body of a tag, from the end of the tag to one of the names in end, which it consumes and returns.
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

// unconditional begins what Jinja compiles into a frame of its own, where an enclosing if no longer excuses an unknown
// filter or test; the caller defers the returned function.
func (p *parser) unconditional() (leave func()) {
	outer := p.conditional
	p.conditional = 0
	return func() { p.conditional = outer }
}

func (p *parser) unexpectedTag() error {
	return p.fail(Syntax, "unexpected tag %s", describe(p.peek()))
}
