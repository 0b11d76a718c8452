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
//   - a percent sign is such a unit and also means hundredths: 50% = 50 and 50% = 0.5, while 50 ≠
//     0.5; a degree sign likewise (π/180);
//   - x = 5 equals 5; two equations are equal if one is a multiple of the other;
//   - (1,2) is a tuple or an open interval, ordered; [1,2] differs from it; {1,2} and the bare list
//     "1, 2" are sets;
//   - 1,234 is 1234 outside brackets; 3 1/2 is a mixed number; 12:30 is a pair; ± stands for both
//     signs; i and e are constants; log is natural;
//   - words are compared case-insensitively, single letters case-sensitively.
//
// Budgets of steps and of bits bound all work, so no text can take long.
package mathequal

import (
	"math/big"
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
		if a, b := a[min(i, len(a)-1)], b[min(i, len(b)-1)]; a.root != nil && b.root != nil && newComparer().equal(a.root, b.root) {
			return true
		}
	}
	return false
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
	for _, thousands := range []bool{true, false} {
		tokens, err := lex(text, thousands)
		if err != nil {
			return []reading{{plain: text}}
		}
		if len(tokens) == 0 {
			return nil
		}
		r := reading{plain: join(tokens)}
		if len(out) > 0 && out[0].plain == r.plain {
			break
		}
		if named, ok := phrases[strings.ReplaceAll(r.plain, " ", "")]; ok {
			r.root = named
		} else if n, ok := lettered(text); ok {
			r.root = n
		} else if root, err := parse(tokens); err == nil {
			r.root = root
		} else if french, ok := outwardBrackets(tokens); ok {
			r.root, _ = parse(french)
		}
		out = append(out, r)
	}
	return out
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
