package jinja

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is one lexical unit. The kind of an operator is its own text; other kinds are named below.
type token struct {
	kind string
	text string // the source of the token; the decoded value of a string
	line int
}

const (
	tokData     = "template data"
	tokName     = "name"
	tokString   = "string"
	tokInteger  = "integer"
	tokFloat    = "float"
	tokVarBegin = "{{"
	tokVarEnd   = "}}"
	tokBegin    = "{%"
	tokEnd      = "%}"
	tokEOF      = "end of template"
)

// lexer cuts a source into tokens, with trim_blocks and lstrip_blocks on.
type lexer struct {
	src          string
	pos          int
	line         int
	counted      int  // line counts the newlines of src[:counted]
	lineStarting bool // the last match ended a line
	tokens       []token
}

// spaces is Python's \s for RE2, whose own is ASCII only.
const spaces = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

var (
	rawBegin = regexp.MustCompile(`^\{%([-+]?)` + spaces + `*raw` + spaces + `*(?:-%\}` + spaces + `*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)` + spaces + `*endraw` + spaces + `*(?:\+%\}|-%\}` + spaces + `*|%\}\n?)`)
)

func lex(src string) []token {
	if !utf8.ValidString(src) {
		panic(failf(Syntax, "the source is not valid UTF-8"))
	}
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, lineStarting: true}
	defer addLine(func() int { return l.lineAt(l.pos) })
	for l.pos < len(l.src) {
		l.text()
	}
	l.emit(tokEOF, "", len(l.src))
	return l.tokens
}

// lineAt returns the line of pos, which must not decrease from call to call.
func (l *lexer) lineAt(pos int) int {
	if pos > l.counted {
		l.line += strings.Count(l.src[l.counted:pos], "\n")
		l.counted = pos
	}
	return l.line
}

func (l *lexer) emit(kind, text string, pos int) {
	if kind == tokData && text == "" {
		return
	}
	l.tokens = append(l.tokens, token{kind: kind, text: text, line: l.lineAt(pos)})
}

// advance moves to pos, the end of a match.
func (l *lexer) advance(pos int) {
	l.pos = pos
	l.lineStarting = pos > 0 && l.src[pos-1] == '\n'
}

// text reads template data up to the next tag, and that tag.
func (l *lexer) text() {
	start := l.pos
	open := nextTag(l.src[start:])
	if open < 0 {
		l.emit(tokData, l.src[start:], start)
		l.advance(len(l.src))
		return
	}
	open += start
	data := l.src[start:open]
	if m := l.rawTag(open); m != nil {
		l.emit(tokData, l.strip(data, l.src[open+m[2]:open+m[3]], true), start)
		l.advance(open + m[1])
		l.raw()
		return
	}
	kind, sign, body := l.src[open:open+2], "", open+2
	if body < len(l.src) && (l.src[body] == '-' || l.src[body] == '+') {
		sign, body = l.src[body:body+1], body+1
	}
	l.emit(tokData, l.strip(data, sign, kind != tokVarBegin), start)
	l.advance(body)
	if kind == "{#" {
		l.comment()
		return
	}
	l.emit(kind, kind, open)
	l.tag(kind)
}

// rawTag matches {% raw %} at open.
func (l *lexer) rawTag(open int) []int {
	if l.src[open+1] != '%' {
		return nil
	}
	return rawBegin.FindStringSubmatchIndex(l.src[open:])
}

// nextTag returns the index of the first {{, {% or {#, or -1.
func nextTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// strip removes the white space at the end of data that the next tag controls: all of it for '-',
// and the indentation before a block tag.
func (l *lexer) strip(data, sign string, block bool) string {
	if sign == "-" {
		return strings.TrimRightFunc(data, isSpace)
	}
	if sign == "+" || !block {
		return data
	}
	begin := strings.LastIndexByte(data, '\n') + 1
	if (begin > 0 || l.lineStarting) && strings.TrimLeftFunc(data[begin:], isSpace) == "" {
		return data[:begin]
	}
	return data
}

func (l *lexer) comment() {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		panic(failf(Syntax, "the comment is not closed: expected '#}'"))
	}
	end += l.pos
	sign := byte(0)
	if end > l.pos {
		sign = l.src[end-1]
	}
	l.advance(l.tagEnd(end+2, sign))
}

// tagEnd returns the offset at which text begins after a closing tag with this sign.
func (l *lexer) tagEnd(pos int, sign byte) int {
	switch sign {
	case '-':
		rest := l.src[pos:]
		return pos + len(rest) - len(strings.TrimLeftFunc(rest, isSpace))
	case '+':
		return pos
	}
	if pos < len(l.src) && l.src[pos] == '\n' {
		return pos + 1
	}
	return pos
}

func (l *lexer) raw() {
	m := rawEnd.FindStringSubmatchIndex(l.src[l.pos:])
	if m == nil {
		panic(failf(Syntax, "the raw block is not closed: expected '{%% endraw %%}'"))
	}
	data := l.src[l.pos : l.pos+m[0]]
	l.emit(tokData, l.strip(data, l.src[l.pos+m[2]:l.pos+m[3]], true), l.pos)
	l.advance(l.pos + m[1])
}

// isSpace is Python's str.isspace for one character.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
