// Package mathequal decides whether two written answers are the same mathematical object, and finds
// the final answer in a reply.
//
// It compares numbers exactly, as rationals: 1/2 = 0.5 = 5e-1 = \frac12, and 0.333 ≠ 1/3. It
// evaluates expressions with roots, constants or variables at fixed points in floating point, with
// a running bound of the rounding error. They are equal if they agree within the bound at every
// point. Texts that it cannot decide in this way are equal only if they are written alike.
// Conventions:
//
//   - a unit, a currency or a base may be omitted, but two units must not contradict each other: 5
//     cm = 5, 5 cm ≠ 5 m;
//   - a word such as million is such a unit and also multiplies: 5 million = 5 and 5 million = 5,000,000;
//   - a percent sign is such a unit and also means hundredths: 50% = 50 and 50% = 0.5, while 50 ≠
//     0.5; a degree sign likewise (π/180);
//   - x = 5 equals 5; two equations are equal if one is a multiple of the other;
//   - (1,2) is a tuple or an open interval, ordered; [1,2] differs from it; {1,2} and the bare list
//     "1, 2" are sets;
//   - 1,234 is 1234 outside brackets; 3 1/2 is a mixed number; 12:30 is a pair; ± stands for both
//     signs; i and e are constants; log is natural;
//   - 0,5 is 0.5 where the truth is one number; in a truth it is two numbers, and 0{,}5 is 0.5 everywhere;
//   - the left side of an equation may name a value in words or as a function: Area = 5, P(A) = 5;
//   - words are compared case-insensitively, single letters case-sensitively.
//
// Budgets of steps and of bits bound all work, so no text can take long.
package mathequal

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// maxText bounds the texts that are read as mathematics, in bytes. Longer texts are equal only if
// they are written alike.
const maxText = 2000

// Equal reports whether the answer and the truth are the same mathematical object. An empty answer
// equals nothing.
func Equal(answer, truth string) bool {
	a, b := read(answer), read(truth)
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	if a[0].plain == b[0].plain {
		return true
	}
	for i := range max(len(a), len(b)) { // both texts read commas the same way
		if same(a[min(i, len(a)-1)], b[min(i, len(b)-1)]) {
			return true
		}
	}
	// Only an answer has a decimal comma: the truth 1,2 may be two numbers, which 1.2 is not.
	european, ok := decimalReading(answer)
	return ok && same(european, b[0])
}

// same compares a reading of the answer and one of the truth. Letters such as R are sets of numbers if the other reading has ℝ, and
// intervals between commas or words are their union if the other one is a set.
func same(a, b reading) bool {
	if a.root == nil || b.root == nil || b.named && isOperation(b.root.args[0].text) {
		return false
	}
	ra, rb := a.root, b.root
	switch {
	case isEquation(ra) && rb.op != opRelation:
		ra = asked(ra)
	case a.bare && isIntervals(ra) && isReal(rb):
		ra = tree(opUnion, ra.args...)
	case b.bare && isIntervals(rb) && isReal(ra):
		rb = tree(opUnion, rb.args...)
	}
	if a.sets != b.sets {
		ra, rb = withSets(ra, rb), withSets(rb, ra)
	}
	return newComparer().equal(ra, rb)
}

// valid reports whether the text is mathematics.
func valid(text string) bool {
	r := read(text)
	return len(r) > 0 && r[0].root != nil
}

// reading is one interpretation of a text.
type reading struct {
	plain string // the words and signs, joined
	root  *node  // nil when it is not mathematics
	sets  bool   // it has names of sets of numbers
	bare  bool   // no braces of a set stand around it
	named bool   // its left side is no mathematics
}

// read returns two interpretations of a text: commas between groups of three digits belong to the
// number, or separate. It returns one if both are the same, and none for an empty text.
func read(text string) []reading {
	text = clean(text)
	if text == "" {
		return nil
	}
	if len(text) > maxText {
		return []reading{{plain: text}}
	}
	var out []reading
	for _, as := range []commas{grouping, separating} {
		tokens, err := lex(text, as)
		if err != nil {
			root := named(text, as)
			return []reading{{plain: text, root: root, named: root != nil}}
		}
		if len(tokens) == 0 {
			return nil
		}
		r := reading{plain: join(tokens)}
		if len(out) > 0 && out[0].plain == r.plain {
			break
		}
		if phrase, ok := phrases[strings.ReplaceAll(r.plain, " ", "")]; ok {
			r.root = phrase
		} else if n, ok := lettered(text); ok {
			r.root = n
		} else if root, err := parse(tokens); err == nil {
			r.root = root
		} else if french, ok := outwardBrackets(tokens); ok {
			r.root, _ = parse(french)
		}
		if r.root == nil {
			r.root = named(text, as)
			r.named = r.root != nil
		}
		r.bare = tokens[0].text != `\{`
		r.sets = slices.ContainsFunc(tokens, func(t token) bool { return t.kind == symbol && strings.HasPrefix(t.text, `\mathbb `) })
		out = append(out, r)
	}
	return out
}

// thousand matches a comma before a group of three digits.
var thousand = regexp.MustCompile(`(?:^|[^0-9])[1-9][0-9]{0,2},[0-9]{3}(?:[^0-9]|$)`)

// decimalReading reads a comma between digits as the decimal point, if there is one comma only.
func decimalReading(text string) (r reading, ok bool) {
	if !strings.Contains(text, ",") || len(text) > maxText {
		return r, false
	}
	text = clean(text)
	outside := outsideBrackets(text)
	at := strings.IndexByte(outside, ',')
	if at != strings.LastIndexByte(outside, ',') || !isDigit(outside, at-1) || !isDigit(outside, at+1) || thousand.MatchString(outside) {
		return r, false
	}
	if tokens, err := lex(text, decimals); err == nil && len(tokens) > 0 {
		r.root, _ = parse(tokens)
	}
	if r.root == nil {
		r.root = named(text, decimals)
	}
	return r, r.root != nil && isExpression(r.root)
}

type operation uint8

const (
	opNumber       operation = iota // num
	opSymbol                        // text
	opInfinity                      //
	opAdd                           // a + b
	opSub                           // a − b
	opMul                           // a·b
	opDiv                           // a/b
	opPow                           // a^b
	opNeg                           // −a
	opPlusMinus                     // a ± b; text "+" or "-" is the sign of the first reading
	opFactorial                     // a!
	opPercent                       // a%
	opDegree                        // a°
	opCall                          // text(args…)
	opSequence                      // text is the pair of brackets, e.g. "(]", "{}", "::" for 12:30, "##" for a matrix
	opRelation                      // text is the relations, e.g. "=" or "<≤"
	opUnion                         // of sets
	opIntersection                  // of sets
	opDifference                    // a without b
	opBuilder                       // the set of all a for which b
	opUnit                          // a with unit text
)

// node is an expression tree.
type node struct {
	op   operation
	num  *big.Rat
	text string
	args []*node
}

func tree(op operation, args ...*node) *node { return &node{op: op, args: args} }

func integer(n int64) *node { return &node{op: opNumber, num: big.NewRat(n, 1)} }
