package mathequal

import (
	"errors"
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	number tokenKind = iota // digits, perhaps a point, perhaps an exponent
	symbol                  // a variable or a constant
	name                    // a function
	word                    // text
	mark                    // anything else: operators, brackets
)

type token struct {
	kind   tokenKind
	text   string
	spaced bool // white space stands before it
}

var errNotMathematics = errors.New("not mathematics")

// rewrite normalises typesetting.
var rewrite = strings.NewReplacer(
	"<=", "≤", ">=", "≥", "!=", "≠", "**", "^", `^{\circ}`, "°", `^\circ`, "°", `^{ \circ }`, "°", "{,}", ",",
	`\not=`, "≠", `\not =`, "≠", "~", " ", `\$`, "$", `\%`, "%", "...", `\ldots `,
)

// entity matches a character as HTML names it.
var entity = regexp.MustCompile(`&(?:[A-Za-z]{2,8}|#[0-9]{2,6}|#x[0-9A-Fa-f]{2,5});`)

// clean strips what surrounds and dresses an answer: fonts, colours, white space, dollar signs of
// mathematics, full stops.
func clean(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxText {
		text = undress(entity.ReplaceAllStringFunc(text, html.UnescapeString))
		if spelt := ascii(text); spelt != text {
			text = undress(spelt)
		}
		text = unquote(text)
		text = strings.ReplaceAll(text, `\$`, "€€") // a currency, unlike other dollar signs
		if strings.Count(text, "$")%2 == 0 {
			text = strings.ReplaceAll(text, "$", " ")
		}
		text = strings.ReplaceAll(text, "€€", "$")
	}
	for {
		shorter := strings.TrimSuffix(strings.TrimRight(text, ".,;: \n\r\t"), `\`)
		if len(shorter) == len(text) {
			return strings.TrimSpace(text)
		}
		text = shorter
	}
}

// maxNested bounds how deep commands such as \text may nest.
const maxNested = 8

type lexer struct {
	rest      string
	tokens    []token
	spaced    bool
	depth     int  // of brackets that hold lists
	nested    int  // commands of text around the position
	lists     int  // environments of relations around the position
	thousands bool // a comma before three digits belongs to the number
}

// lex splits a text into tokens.
func lex(text string, thousands bool) ([]token, error) {
	l := &lexer{rest: rewrite.Replace(text), thousands: thousands}
	if err := l.run(false); err != nil {
		return nil, err
	}
	return bare(l.tokens), nil
}

// bare strips the signs and words that announce an answer, and the signs that end a proof or a sentence.
func bare(tokens []token) []token {
	is := func(t token, signs string) bool {
		return t.kind == mark && t.text != "" && strings.Contains(signs, t.text)
	}
	for len(tokens) > 0 && is(tokens[0], "⇒") {
		tokens = tokens[1:]
	}
	for len(tokens) > 1 && is(tokens[len(tokens)-1], "∎.") {
		tokens = tokens[:len(tokens)-1]
	}
	start := 0
	for start < len(tokens) && tokens[start].kind == word && announces[strings.ToLower(tokens[start].text)] {
		start++
	}
	if start > 0 && start < len(tokens) && is(tokens[start], ":") {
		start++
	}
	if start < len(tokens) && tokens[start].kind != word {
		return tokens[start:]
	}
	return tokens
}

func (l *lexer) run(inText bool) error {
	for l.rest != "" {
		r, size := utf8.DecodeRuneInString(l.rest)
		switch {
		case unicode.IsSpace(r):
			l.spaced = true
			l.rest = l.rest[size:]
		case r == '\\':
			if err := l.command(); err != nil {
				return err
			}
		case isDigit(l.rest, 0) || r == '.' && (isDigit(l.rest, 1) || recurs(l.rest[1:])):
			l.number()
		case unicode.IsLetter(r):
			l.letters(inText)
		case r == utf8.RuneError:
			return errNotMathematics
		default:
			l.mark(string(r), size)
		}
	}
	return nil
}

func isDigit(s string, i int) bool { return i >= 0 && i < len(s) && s[i] >= '0' && s[i] <= '9' }

func (l *lexer) add(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.spaced})
	l.spaced = false
}

func (l *lexer) mark(text string, size int) {
	switch text {
	case "(", "[", `\{`:
		l.depth++
	case ")", "]", `\}`:
		l.depth--
	}
	l.add(mark, text)
	l.rest = l.rest[size:]
}

// number reads digits with a point, an exponent and, outside brackets, commas between groups of
// three.
func (l *lexer) number() {
	s, n := l.rest, 0
	for isDigit(s, n) {
		n++
	}
	digits := s[:n]
	for l.depth <= 0 && len(digits) <= maxText && l.group(s, n, len(s[:n])) {
		digits += s[n+1 : n+4]
		n += 4
	}
	if n < len(s) && s[n] == '.' && (isDigit(s, n+1) || n > 0 || recurs(s[n+1:])) {
		if n == 0 {
			digits = "0"
		}
		start := n
		for n++; isDigit(s, n); n++ {
		}
		digits += s[start:n]
	}
	if m := exponent(s[n:]); m > 0 {
		digits += s[n : n+m]
		n += m
	}
	l.add(number, digits)
	l.rest = s[n:]
}

var recurring = regexp.MustCompile(`^(?:\\(?:overline|bar|dot)(?:[^A-Za-z]|$)|\([0-9]+\))`)

// recurs reports whether recurring decimals follow, as after the point of 0.\dot3 and 0.(3).
func recurs(s string) bool {
	return s != "" && (s[0] == '\\' || s[0] == '(') && recurring.MatchString(s)
}

// group reports whether a separator and exactly three digits follow at n. The digits so far must be
// at most three, or grouped already.
func (l *lexer) group(s string, n, sofar int) bool {
	if n+3 >= len(s) || s[0] == '0' || (sofar > 3 && !strings.ContainsAny(s[:n], ", ")) {
		return false
	}
	separator := s[n] == ',' && l.thousands || s[n] == ' '
	if s[n] == ' ' && n+4 < len(s) && s[n+4] == '/' { // 3 125/200 is a mixed number
		return false
	}
	return separator && isDigit(s, n+1) && isDigit(s, n+2) && isDigit(s, n+3) && !isDigit(s, n+4)
}

// exponent returns the length of an exponent such as e+12 at the start, 0 if there is none.
func exponent(s string) int {
	if s == "" || s[0] != 'e' && s[0] != 'E' {
		return 0
	}
	n := 1
	if n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	start := n
	for isDigit(s, n) {
		n++
	}
	if n == start || n-start > 3 {
		return 0
	}
	return n
}

// join returns tokens as text, with words in lower case.
func join(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		text := t.text
		switch {
		case t.kind == word && len(text) > 1:
			text = strings.ToLower(text)
		case t.kind == mark && (text == "and" || text == "or"):
			text = ","
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(text)
	}
	return b.String()
}
