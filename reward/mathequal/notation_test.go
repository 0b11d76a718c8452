package mathequal

import (
	"strings"
	"testing"
)

// Pairs that sympy says are equal, in the notations that people use. math-verify 0.9 misses many.
func TestRightAnswersAreRightInEveryNotation(t *testing.T) {
	pairs := rows(t, "right.tsv")
	missed := 0
	for _, row := range pairs {
		kind, gold, answer, found := row[0], row[1], row[2], row[3] == "1"
		if !Equal(Answer(answer), Truth(gold)) {
			t.Errorf("%s: gold %q, answer %q: wrong, want right; the answer was read as %q", kind, gold, answer, Answer(answer))
		}
		if !found {
			missed++
		}
	}
	if len(pairs) < 1000 || missed*4 < len(pairs) {
		t.Errorf("%d pairs, of which math-verify misses %d: want at least 1000 and a quarter", len(pairs), missed)
	}
}

// Pairs that sympy says are different: near misses of every kind, in every notation.
func TestNoneOfTenThousandWrongAnswersIsRight(t *testing.T) {
	pairs := rows(t, "wrong.tsv")
	kinds := map[string]int{}
	for _, row := range pairs {
		kind, gold, answer := row[0], row[1], row[2]
		kinds[kind]++
		if Equal(Answer(answer), Truth(gold)) {
			t.Errorf("%s: gold %q, answer %q: right, want wrong; the answer was read as %q", kind, gold, answer, Answer(answer))
		}
	}
	if least := 10_000; len(pairs) < least || len(kinds) < 10 {
		t.Errorf("%d pairs of %d kinds, want at least %d of 10", len(pairs), len(kinds), least)
	}
}

// Replies as people write them, with the verdict by hand: kind, verdict, gold, answer. <NL> is a new
// line.
func TestVerdictsOnRepliesAsPeopleWriteThem(t *testing.T) {
	for _, row := range rows(t, "cases.tsv") {
		kind, want, gold, answer := row[0], row[1] == "1", row[2], strings.ReplaceAll(row[3], "<NL>", "\n")
		if got := Equal(Answer(answer), Truth(gold)); got != want {
			t.Errorf("%s: gold %q, answer %q: got %v, want %v; the answer was read as %q", kind, gold, answer, got, want, Answer(answer))
		}
	}
}

// Pairs in the notations that models write answers in, right and wrong, as sympy says.
func TestVerdictsOnAnswersAsModelsWriteThem(t *testing.T) {
	kinds, wrongs := map[string]int{}, 0
	for _, row := range rows(t, "written.tsv") {
		kind, want, gold, answer := row[0], row[1] == "1", row[2], row[3]
		kinds[kind]++
		if !want {
			wrongs++
		}
		if got := Equal(Answer(answer), Truth(gold)); got != want {
			t.Errorf("%s: gold %q, answer %q: got %v, want %v; the answer was read as %q", kind, gold, answer, got, want, Answer(answer))
		}
	}
	if len(kinds) < 7 || wrongs < 4000 {
		t.Errorf("%d wrong pairs of %d kinds, want at least 4000 of 7", wrongs, len(kinds))
	}
}

// The judge may not be moved by the sides of a pair.
func TestVerdictsAreTheSameFromBothSides(t *testing.T) {
	for _, name := range []string{"right.tsv", "wrong.tsv"} {
		for i, row := range rows(t, name) {
			if strings.Contains(row[2], "answer") || i%7 > 0 {
				continue
			}
			a, b := Answer(row[2]), Truth(row[1])
			if Equal(a, b) != Equal(b, a) {
				t.Errorf("Equal(%q, %q) = %v, swapped %v", a, b, Equal(a, b), Equal(b, a))
			}
		}
	}
}
