package annotate

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Verdict is an annotator's judgement of a pair.
type Verdict string

const (
	First  Verdict = "first"  // the first answer is better
	Second Verdict = "second" // the second answer is better
	Tie    Verdict = "tie"    // neither answer is better
	Skip   Verdict = "skip"   // the annotator does not judge this pair
	undo   Verdict = "undo"   // in a record: takes back the annotator's decision on the pair
)

// Decision is one annotator's decision on one pair. Answers are in the order of the data,
// regardless of which was on the left.
type Decision struct {
	Pair      string     `json:"pair"` // Pair.ID
	Annotator string     `json:"annotator"`
	Verdict   Verdict    `json:"verdict"`
	Left      int        `json:"left"`    // which answer stood left, 0 or 1
	Ratings   [2]int     `json:"ratings"` // of each answer, 1 to 5; 0 is none
	Edits     [2]*string `json:"edits"`   // each answer as the annotator rewrote it; nil if unchanged
	Time      time.Time  `json:"time"`
}

// maxRating is the best rating.
const maxRating = 5

// check refuses decisions that the page cannot send.
func (d *Decision) check() error {
	switch d.Verdict {
	case First, Second, Tie, Skip:
	default:
		return mistake("verdict %q: want first, second, tie or skip", d.Verdict)
	}
	for i, r := range d.Ratings {
		if r < 0 || r > maxRating {
			return mistake("a rating of %d: want 1 to %d, or 0 for none", r, maxRating)
		}
		if e := d.Edits[i]; e != nil && strings.TrimSpace(*e) == "" {
			return mistake("an edited answer is empty")
		}
	}
	return nil
}

// sameEdits reports whether both decisions have the same edits.
func sameEdits(a, b [2]*string) bool {
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) || a[i] != nil && *a[i] != *b[i] {
			return false
		}
	}
	return true
}

// maxName is the longest name of an annotator, in characters.
const maxName = 64

// checkName refuses names that people could not distinguish.
func checkName(name string) error {
	if n := utf8.RuneCountInString(name); n == 0 || n > maxName || !utf8.ValidString(name) {
		return mistake("the annotator's name has %d characters: want 1 to %d", n, maxName)
	}
	if strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return mistake("the annotator's name %q: want printable characters, none of them a space at an end", name)
	}
	return nil
}

// Mistake is an error in a request, as opposed to an error of the book.
type Mistake struct{ text string }

func (m Mistake) Error() string { return m.text }

func mistake(format string, args ...any) error { return Mistake{fmt.Sprintf(format, args...)} }
