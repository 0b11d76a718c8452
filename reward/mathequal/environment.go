package mathequal

import (
	"regexp"
	"strings"
)

// environment is an open \begin: at is the place of its brace among the tokens, −1 for a matrix.
type environment struct{ at int }

// inLines reports whether the innermost environment is a list of lines.
func (l *lexer) inLines() bool { return len(l.open) > 0 && l.open[len(l.open)-1].at >= 0 }

var (
	relates   = regexp.MustCompile(`^[\s&]*(?:[=<>≤≥≠≈]|\\(?:[lg]eq?|[lg]eqslant|lt|gt|approx|equiv|sim)(?:[^A-Za-z]|$))`)
	severals  = regexp.MustCompile(`&|\\\\\s*[^\s]`)
	alignment = regexp.MustCompile(`^\s*\[[a-z]\]`)
)

// aligns reports whether the & at the position only aligns relations.
func (l *lexer) aligns() bool {
	if len(l.open) > 0 && !l.inLines() {
		return false
	}
	if len(l.tokens) == 0 || relates.MatchString(l.rest[1:]) {
		return true
	}
	before := l.tokens[len(l.tokens)-1]
	return before.kind == mark && before.text != "" && strings.Contains("=<>≤≥≠{,", before.text)
}

// environment reads the name of an environment: a matrix, or a list of lines between braces. A matrix without
// brackets is such a list if it has relations, or only one element.
func (l *lexer) environment(cmd string) error {
	env, ok := l.braced()
	env = strings.TrimSuffix(env, "*")
	if !ok || !matrices[env] && !systems[env] {
		return errNotMathematics
	}
	if cmd == "end" {
		return l.closeEnvironment()
	}
	l.rest = l.rest[len(alignment.FindString(l.rest)):]
	if env == "array" || env == "alignat" || env == "alignedat" {
		l.braced() // columns
	}
	lines := systems[env]
	if env == "array" || env == "matrix" {
		inside, _, _ := strings.Cut(l.rest, `\end`)
		lines = strings.ContainsAny(inside, "=<>≤≥") || !severals.MatchString(inside)
	}
	at := -1
	if lines {
		at, cmd = len(l.tokens), "{"
	}
	l.open = append(l.open, environment{at})
	l.add(mark, cmd)
	return nil
}

// closeEnvironment reads \end. It drops the brace before lines that nothing closes, as in
// \left\{ … \right.
func (l *lexer) closeEnvironment() error {
	lines, n := l.inLines(), len(l.tokens)
	if len(l.open) == 0 {
		return errNotMathematics
	}
	at := l.open[len(l.open)-1].at
	l.open = l.open[:len(l.open)-1]
	if !lines {
		l.add(mark, "end")
		return nil
	}
	if n > 0 && l.tokens[n-1].text == "," {
		l.tokens = l.tokens[:n-1]
	}
	l.add(mark, "}")
	if at > 0 && l.tokens[at-1].text == `\{` && !strings.HasPrefix(strings.TrimLeft(l.rest, " "), `\}`) {
		l.tokens = append(l.tokens[:at-1], l.tokens[at:]...)
		l.depth--
	}
	return nil
}
