package jinja

import "slices"

// cursor reads the tokens of a template one after another.
type cursor struct {
	tokens []token
	next   int
}

func (c *cursor) peek() token { return c.tokens[c.next] }

func (c *cursor) lookahead() token { return c.tokens[min(c.next+1, len(c.tokens)-1)] }

func (c *cursor) take() token {
	t := c.tokens[c.next]
	if t.kind != tokEOF {
		c.next++
	}
	return t
}

func (c *cursor) is(kind string) bool { return c.peek().kind == kind }

func (c *cursor) isName(word string) bool { return c.is(tokName) && c.peek().text == word }

func (c *cursor) skip(kind string) bool {
	if c.is(kind) {
		c.next++
		return true
	}
	return false
}

func (c *cursor) skipName(word string) bool {
	if c.isName(word) {
		c.next++
		return true
	}
	return false
}

func (c *cursor) expect(kind string) token {
	if !c.is(kind) {
		panic(c.wanted(kind))
	}
	return c.take()
}

func (c *cursor) expectName(word string) {
	if !c.skipName(word) {
		panic(c.wanted(word))
	}
}

func (c *cursor) wanted(what string) error {
	return c.fail(Syntax, "expected %s, got %s", quoteKind(what), describe(c.peek()))
}

func (c *cursor) fail(kind Kind, format string, args ...any) error {
	return at(failf(kind, format, args...), c.peek().line)
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

func (c *cursor) word(w string) func() (string, bool) {
	return func() (string, bool) { return w, c.skipName(w) }
}

func (c *cursor) anyOf(ops ...string) func() (string, bool) {
	return func() (string, bool) {
		if op := c.peek().kind; slices.Contains(ops, op) {
			c.next++
			return op, true
		}
		return "", false
	}
}
