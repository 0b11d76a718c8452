package mathequal

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// command reads a token that starts with a backslash.
func (l *lexer) command() error {
	s := l.rest[1:]
	n := 0
	for n < len(s) && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z') {
		n++
	}
	if n == 0 {
		return l.escape(s)
	}
	cmd := s[:n]
	l.rest = s[n:]
	switch {
	case textual[cmd]:
		l.rest = strings.TrimPrefix(l.rest, "*")
		if m := upright.FindStringSubmatch(l.rest); m != nil && cmd != "text" && (strings.Contains("ei", m[1]) || !l.afterValue()) {
			l.add(symbol, m[1])
			l.rest = l.rest[len(m[0]):]
			return nil
		}
		return l.text()
	case cmd == "begin" || cmd == "end":
		return l.environment(cmd)
	case namedSets[cmd] != "":
		l.add(symbol, `\mathbb `+namedSets[cmd])
		return nil
	case cmd == "mathbb" || cmd == "Bbb" || cmd == "mathds":
		set, ok := l.argument()
		if !ok {
			return errNotMathematics
		}
		l.add(symbol, `\mathbb `+set)
		return nil
	case signs[cmd] != "":
		l.mark(signs[cmd], 0)
		return nil
	case cmd == "complement":
		l.add(symbol, "c")
		return nil
	case cmd == "root":
		l.add(name, cmd)
		return nil
	case greek[cmd]:
		l.add(symbol, strings.TrimPrefix(cmd, "var"))
		return nil
	}
	if !l.known(cmd) {
		return errNotMathematics
	}
	return nil
}

// upright matches a constant, or the letter of a set of numbers, in roman letters.
var upright = regexp.MustCompile(`^ *\{ *([eiRNZQ]) *\}`)

// afterValue reports whether a number or a letter stands before. A letter behind it may be its unit.
func (l *lexer) afterValue() bool {
	n := len(l.tokens)
	return n > 0 && l.tokens[n-1].kind != mark
}

// escape reads a backslash before a sign.
func (l *lexer) escape(s string) error {
	if s == "" {
		return errNotMathematics
	}
	switch s[0] {
	case '\\':
		if l.inLines() && relates.MatchString(l.rest[2:]) { // the line goes on
			l.rest = l.rest[2:]
			return nil
		}
		l.mark(`\\`, 2)
		if l.inLines() {
			l.tokens[len(l.tokens)-1].text = ","
		}
	case '{', '}':
		l.mark(`\`+s[:1], 2)
	case '|':
		l.mark("|", 2)
	case '&':
		l.mark("and", 2)
	default:
		return errNotMathematics
	}
	return nil
}

// braced reads {…} without braces inside.
func (l *lexer) braced() (string, bool) {
	inner, rest, ok := strings.Cut(strings.TrimLeft(l.rest, " "), "}")
	if !ok || !strings.HasPrefix(inner, "{") {
		return "", false
	}
	l.rest = rest
	return inner[1:], true
}

// argument reads {…} without braces inside, or one sign.
func (l *lexer) argument() (string, bool) {
	if l.rest = strings.TrimLeft(l.rest, " "); l.rest == "" || l.rest[0] == '{' {
		return l.braced()
	}
	_, size := utf8.DecodeRuneInString(l.rest)
	sign := l.rest[:size]
	l.rest = l.rest[size:]
	return sign, true
}

// text reads the argument of \text and similar commands, whose letters are words.
func (l *lexer) text() error {
	l.rest = strings.TrimLeft(l.rest, " ")
	inner, ok := group(l.rest)
	if !ok {
		return errNotMathematics
	}
	if l.rest[0] != '{' { // \mathrm R
		_, size := utf8.DecodeRuneInString(l.rest)
		inner = l.rest[:size]
		l.rest = "{" + inner + "}" + l.rest[size:]
	}
	if l.nested++; l.nested > maxNested {
		return errNotMathematics
	}
	rest := l.rest[len(inner)+2:]
	l.rest, l.spaced = inner, true
	if err := l.run(true); err != nil {
		return err
	}
	l.nested--
	l.rest, l.spaced = rest, true
	return nil
}

// known adds a function or a constant by its name.
func (l *lexer) known(text string) bool {
	if s, ok := spelled[text]; ok {
		text = s
	}
	switch _, isFunction := functions[text]; {
	case isFunction:
		l.add(name, text)
	case text == "π" || text == "∞" || text == "∅":
		l.add(symbol, text)
	default:
		return false
	}
	return true
}

// letters reads a run of letters: a name, a word, or variables side by side.
func (l *lexer) letters(inText bool) {
	n := 0
	for n < len(l.rest) {
		r, size := utf8.DecodeRuneInString(l.rest[n:])
		if !unicode.IsLetter(r) {
			break
		}
		n += size
	}
	run := l.rest[:n]
	l.rest = l.rest[n:]
	switch {
	case run == "choose":
		l.add(mark, run)
	case conjunctions[run] != "" && (inText || conjunctions[run] != ","):
		l.add(mark, conjunctions[run])
	case run == "U" && l.joinsSets():
		l.add(mark, "∪")
	case l.isWord(run, inText):
		l.add(word, run)
	case run != "tg" && l.known(run):
	default:
		for _, r := range run {
			l.add(symbol, string(r))
		}
	}
}

// joinsSets reports whether brackets stand before and behind the position.
func (l *lexer) joinsSets() bool {
	if len(l.tokens) == 0 {
		return false
	}
	before, after := l.tokens[len(l.tokens)-1].text, strings.TrimLeft(l.rest, " ")
	return (before == ")" || before == "]" || before == `\}`) && (strings.HasPrefix(after, "(") || strings.HasPrefix(after, "[") ||
		strings.HasPrefix(after, `\{`))
}

// firstForeign is the first letter of the scripts that do not write variables: Cyrillic.
const firstForeign = 'Ѐ'

// isWord reports whether a run of letters is a word and not a product of variables. Units count
// only after a number, long runs always.
func (l *lexer) isWord(run string, inText bool) bool {
	_, function := functions[run]
	count := utf8.RuneCountInString(run)
	if inText {
		return !function
	}
	if function || spelled[run] != "" {
		return false
	}
	if firstRune(run) >= firstForeign {
		return true
	}
	if run == "base" && len(l.tokens) > 0 {
		return true
	}
	if strings.EqualFold(run, "no") && len(l.tokens) == 0 && strings.TrimSpace(l.rest) == "" { // not the product of n and o
		return true
	}
	var last token
	if len(l.tokens) > 0 {
		last = l.tokens[len(l.tokens)-1]
	}
	if run == "is" && last.kind == word {
		return true
	}
	after := len(l.tokens) > 0 && (last.kind == number || last.kind == word || last.kind == symbol && l.spaced ||
		strings.Contains("%°}/", last.text))
	_, unit := units[run]
	switch {
	case count == 1: // the h of km/h
		n := len(l.tokens)
		return unit && n >= 2 && l.tokens[n-1].text == "/" && l.tokens[n-2].kind == word
	case unit && after, count >= 5:
		return true
	case count >= 3:
		rest := strings.TrimLeft(l.rest, " ")
		return after && l.spaced || len(l.tokens) == 0 && (rest == "" || !strings.ContainsRune(`+-*/^=<>≤≥≠()_\0123456789,`, firstRune(rest)))
	}
	return false
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}
