package mathequal

import (
	"regexp"
	"slices"
	"strings"
)

// maxName bounds the name of a value, in bytes.
const maxName = 80

var (
	nameWord = regexp.MustCompile(`[A-Za-z]{2,}`)
	command  = regexp.MustCompile(`\\[A-Za-z]+`)
	// noName matches what no name of a value has: signs of relations and lists, and words of sentences.
	noName = regexp.MustCompile(`[<>≤≥≠]|\\(?:not|[lg]eq?|neq?|lt|gt|leqslant|geqslant)(?:[^A-Za-z]|$)|` +
		`(?i)\b(?:no|not|none|never|neither|cannot|where|if|when|for|such|that|unless|except|because|since|assume|` +
		`given|with|let|and|or|suppose|impossible|half|twice|double|triple|third|quarter|times)\b`)
	sums = regexp.MustCompile(`^\s*\\(?:int|sum|prod|lim)(?:[^A-Za-z]|$)`)
	// calculation matches the signs of a value that is worked out of a named one: Area/2, −Area, 2∠A.
	calculation = regexp.MustCompile(`^\s*[-−0-9]|\s[-−]\s|[+*/^]|\\(?:cdot|times|[dt]?frac|pm)(?:[^A-Za-z]|$)`)
)

// named reads a text whose left side is no mathematics and names a value, such as "Area = 5", "∠A = 5" or
// "P(X = 1) = 5", as an equation of a variable. It returns nil if it is none.
func named(text string, as commas) *node {
	at := firstEquals(text)
	if at <= 0 || at > maxName {
		return nil
	}
	label := text[:at]
	outside := outsideBrackets(label)
	words := nameWord.FindAllString(command.ReplaceAllString(label, " "), -1)
	computes := !sums.MatchString(outside) && calculation.MatchString(outside)
	if computes || noName.MatchString(outside) || strings.ContainsAny(outside, ",;:.") || len(words) > 4 {
		return nil
	}
	tokens, err := lex("x"+text[at:], as)
	if err != nil {
		return nil
	}
	n, err := parse(tokens)
	if err != nil || !isEquation(n) {
		return nil
	}
	n.args[0] = &node{op: opSymbol, text: label}
	return n
}

var calculates = regexp.MustCompile(`[-+*/^]|\\(?:nabla|partial|[dt]?frac|cdot|times)(?:[^A-Za-z]|$)`)

// isOperation reports whether a name has signs of calculation. A truth with such a name may be a differential
// equation, which no value equals.
func isOperation(label string) bool { return calculates.MatchString(label) }

// firstEquals returns the place of the first = outside brackets, −1 without one.
func firstEquals(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '=':
			if depth == 0 {
				return i
			}
		}
	}
	return -1
}

// outsideBrackets returns a text without what stands in round and square brackets.
func outsideBrackets(text string) string {
	depth := 0
	return strings.Map(func(r rune) rune {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		if depth > 0 {
			return -1
		}
		return r
	}, text)
}

// isIntervals reports whether a list has pairs only, which may be intervals.
func isIntervals(n *node) bool {
	return n.op == opSequence && n.text == "{}" && len(n.args) > 1 && !slices.ContainsFunc(n.args, func(a *node) bool {
		return a.op != opSequence || len(a.args) != 2 || !strings.Contains("() [] (] [)", a.text)
	})
}

// isReal reports whether a set is one of real numbers in another form than a list, and not one of pairs.
func isReal(n *node) bool {
	isFinite := func(a *node) bool { return a.op == opSequence && a.text == "{}" }
	return n.op == opUnion && !slices.ContainsFunc(n.args, isFinite) || n.op == opDifference || n.op == opBuilder || isInequality(n)
}

// withSets returns a tree with the sets of numbers in place of their letters, if the other tree has the sets
// and not the letters.
func withSets(n, other *node) *node {
	if n.op == opSymbol && strings.Contains("R N Z Q C", n.text) && holdsSymbol(other, `\mathbb `+n.text) && !holdsSymbol(other, n.text) {
		return &node{op: opSymbol, text: `\mathbb ` + n.text}
	}
	if len(n.args) == 0 {
		return n
	}
	args := make([]*node, len(n.args))
	for i, a := range n.args {
		args[i] = withSets(a, other)
	}
	return &node{op: n.op, num: n.num, text: n.text, args: args}
}

func holdsSymbol(n *node, name string) bool {
	if n.op == opSymbol {
		return n.text == name
	}
	for _, a := range n.args {
		if holdsSymbol(a, name) {
			return true
		}
	}
	return false
}
