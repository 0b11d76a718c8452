package jinja

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

var (
	floatToken   = regexp.MustCompile(`^(?i:(?:[0-9]+_)*[0-9]+(?:(?:\.(?:[0-9]+_)*[0-9]+)?e[+\-]?(?:[0-9]+_)*[0-9]+|\.(?:[0-9]+_)*[0-9]+))`)
	integerToken = regexp.MustCompile(`^(?i:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[0-9a-f])+|[1-9](?:_?[0-9])*|0(?:_?0)*)`)
)

// operators, longest first.
var operators = []string{
	"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

var closing = map[string]string{"(": ")", "[": "]", "{": "}"}

// tag reads the tokens of an expression tag up to its end.
func (l *lexer) tag(kind string) {
	end := tokVarEnd
	if kind == tokBegin {
		end = tokEnd
	}
	var balance []string
	for l.pos < len(l.src) {
		if len(balance) == 0 && l.tagClosed(end) {
			return
		}
		rest := l.src[l.pos:]
		if n := len(rest) - len(strings.TrimLeftFunc(rest, isSpace)); n > 0 {
			l.advance(l.pos + n)
			continue
		}
		op := l.operand(rest)
		if op == "" {
			continue
		}
		if want, opens := closing[op]; opens {
			balance = append(balance, want)
		} else if op == ")" || op == "]" || op == "}" {
			if len(balance) == 0 {
				panic(failf(Syntax, "unexpected '%s'", op))
			}
			if want := balance[len(balance)-1]; want != op {
				panic(failf(Syntax, "unexpected '%s', expected '%s'", op, want))
			}
			balance = balance[:len(balance)-1]
		}
	}
}

// tagClosed consumes the end of the tag if it comes next. Only block tags accept '+' and remove one
// newline after them.
func (l *lexer) tagClosed(end string) bool {
	rest, sign := l.src[l.pos:], byte(0)
	if rest[0] == '-' || rest[0] == '+' && end == tokEnd {
		sign, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, end) {
		return false
	}
	l.emit(end, end, l.pos)
	stop := len(l.src) - len(rest) + 2
	if end == tokEnd || sign == '-' {
		stop = l.tagEnd(stop, sign)
	}
	l.advance(stop)
	return true
}

// operand reads one token. It returns the token if it is an operator, and "" otherwise.
func (l *lexer) operand(rest string) (operator string) {
	take := func(kind, text string, n int) {
		l.emit(kind, text, l.pos)
		l.advance(l.pos + n)
	}
	afterDot := l.pos > 0 && l.src[l.pos-1] == '.'
	if digit := rest[0] >= '0' && rest[0] <= '9'; digit {
		if m := floatToken.FindString(rest); m != "" && !afterDot {
			take(tokFloat, strings.ReplaceAll(m, "_", ""), len(m))
			return ""
		}
		m := integerToken.FindString(rest)
		take(tokInteger, strings.ReplaceAll(m, "_", ""), len(m))
		return ""
	}
	if m := rest[:nameEnd(rest)]; m != "" {
		if first, _ := utf8.DecodeRuneInString(m); first != '_' && !unicode.IsLetter(first) {
			panic(failf(Syntax, "invalid character in identifier %q", m))
		}
		take(tokName, m, len(m))
		return ""
	}
	if rest[0] == '\'' || rest[0] == '"' {
		n := stringEnd(rest)
		if n < 0 {
			panic(failf(Syntax, "the string that begins with %.20q is not closed", rest))
		}
		value := unescape(rest[1 : n-1])
		take(tokString, value, n)
		return ""
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			take(op, op, len(op))
			return op
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	panic(failf(Syntax, "unexpected character %q", r))
}

// nameEnd returns the length of the name at the beginning of s.
func nameEnd(s string) int {
	for i, c := range s {
		if c != '_' && !unicode.In(c, unicode.L, unicode.M, unicode.N) {
			return i
		}
	}
	return len(s)
}

// stringEnd returns the length of the quoted string at the beginning of s, or -1.
func stringEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return -1
}
