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

// entity matches a character as HTML names it.
var entity = regexp.MustCompile(`&(?:[A-Za-z]{2,8}|#[0-9]{2,6}|#x[0-9A-Fa-f]{2,5});`)

// clean strips what surrounds and dresses an answer: fonts, colours, white space, dollar signs of
// mathematics, full stops.
func clean(text string) string {
	text = strings.TrimSpace(text)
	if len(text) <= maxText {
		if strings.Contains(text, "&") {
			text = entity.ReplaceAllStringFunc(text, html.UnescapeString)
		}
		text = undress(text)
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
	rest   string
	tokens []token
	spaced bool
	depth  int // of brackets that hold lists
	nested int // commands of text around the position
	open   []environment
	commas commas
}

// commas says what a comma between digits is.
type commas uint8

const (
	grouping   commas = iota // before three digits it belongs to the number
	separating               // it separates
	decimals                 // it is the decimal point, if digits stand on both sides
)

// lex splits a text into tokens.
func lex(text string, as commas) ([]token, error) {
	l := &lexer{rest: respell(text), commas: as, tokens: make([]token, 0, min(len(text), 24))}
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
	for len(tokens) > 0 && (is(tokens[0], "⇒") || tokens[0].text == `\\`) {
		tokens = tokens[1:]
	}
	for len(tokens) > 1 && is(tokens[len(tokens)-1], "∎.") {
		tokens = tokens[:len(tokens)-1]
	}
	if len(tokens) > 3 && is(tokens[0], "(") && tokens[1].kind == word && len(tokens[1].text) == 1 && is(tokens[2], ")") {
		tokens = tokens[3:] // \textbf{(B)} 17
	}
	start := 0
	for start < len(tokens) && tokens[start].kind == word && announces[strings.ToLower(tokens[start].text)] {
		start++
	}
	if start > 0 && start < len(tokens) && is(tokens[start], ":.") {
		start++
	}
	if start < len(tokens) && (tokens[start].kind != word || start > 0 && len(tokens[start].text) == 1) {
		tokens = tokens[start:]
	}
	if len(tokens) > 1 && tokens[0].kind == word && negative[strings.ToLower(tokens[0].text)] {
		tokens[0] = token{kind: mark, text: "-"}
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
		case r == '.' && inText && len(l.tokens) > 0 && l.tokens[len(l.tokens)-1].kind == word: // sq. cm
			l.rest = l.rest[size:]
		case r == '&' && l.aligns():
			l.rest = l.rest[size:]
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
	if m := withComma.FindStringSubmatch(s); l.commas == decimals && l.depth <= 0 && m != nil {
		l.add(number, separators.Replace(m[1])+"."+m[2])
		l.rest = s[len(m[0]):]
		return
	}
	for size := l.separator(s, n); size > 0 && len(digits) <= maxText; size = l.separator(s, n) {
		digits += s[n+size : n+size+3]
		n += size + 3
	}
	if strings.HasPrefix(s[n:], "{,}") { // 0{,}5
		sign := "."
		if l.depth > 0 || !isDigit(s, n+3) {
			sign = ","
		}
		s = s[:n] + sign + s[n+3:]
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

// withComma matches a number with a decimal comma, and perhaps groups of three digits before it. Only zeros
// behind the comma are none: 5,0 is two numbers.
var (
	withComma  = regexp.MustCompile(`^([0-9]{1,3}(?:[. '][0-9]{3})+|[0-9]+),([0-9]*[1-9][0-9]*)`)
	separators = strings.NewReplacer(".", "", " ", "", "'", "")
)

// separator returns the length of a separator at n that exactly three digits follow, 0 if there is none. The
// digits before it must be at most three, or grouped already.
func (l *lexer) separator(s string, n int) int {
	if n+3 >= len(s) || s[0] == '0' || n > 3 && !strings.ContainsAny(s[:n], ", '_}") {
		return 0
	}
	size := 1
	switch s[n] {
	case ',':
		if l.commas != grouping || l.depth > 0 {
			return 0
		}
	case ' ':
		if l.depth > 0 || n+4 < len(s) && s[n+4] == '/' { // 3 125/200 is a mixed number
			return 0
		}
	case '{':
		if size = 3; !strings.HasPrefix(s[n:], "{,}") {
			return 0
		}
	case '\'', '_':
	default:
		return 0
	}
	if n += size; isDigit(s, n) && isDigit(s, n+1) && isDigit(s, n+2) && !isDigit(s, n+3) {
		return size
	}
	return 0
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
