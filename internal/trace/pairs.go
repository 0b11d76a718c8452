package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Held is what one rollout answered to a held-out row.
type Held struct {
	Evaluated         // of the last turn, with the prompt of the first
	Verdict   Verdict `json:"verdict"`
	Number    int     `json:"repeat"` // of the row, also of one that failed
}

// key tells answers of two evaluations that belong together.
func (h *Held) key() string { return fmt.Sprintf("%s\x00%d\x00%d", h.Taskset, h.Row, h.Number) }

// HeldOf returns the rollouts of an evaluation's rows, in the order of the rows.
func HeldOf(rows []Evaluated) (all []*Held) {
	known, used := map[string]*Held{}, map[string]bool{}
	var failed []*Held
	for _, r := range rows {
		h := &Held{Evaluated: r}
		if r.Run == nil {
			failed, all = append(failed, h), append(all, h)
			continue
		}
		h.Number = int(*r.Run)
		if first := known[h.key()]; first != nil { // a later turn
			r.Prompt = first.Prompt
			first.Evaluated = r
			continue
		}
		known[h.key()], used[h.key()] = h, true
		all = append(all, h)
	}
	for _, h := range failed { // it was one of the repeats that are missing
		for used[h.key()] {
			h.Number++
		}
		used[h.key()] = true
	}
	for _, h := range all {
		h.Verdict = VerdictOf(h.Reward, string(h.Parts), h.Reason)
	}
	return all
}

// RightOf counts the right answers.
func RightOf(all []*Held) (n int) {
	for _, h := range all {
		if h.Verdict == Right {
			n++
		}
	}
	return n
}

// Change says how an answer differs from the one to the same row in another evaluation.
type Change string

// The changes, in the order in which they are shown.
const (
	Lost    Change = "lost"    // right → wrong
	Won     Change = "won"     // wrong → right
	Other   Change = "other"   // another text with the same verdict
	TheSame Change = "same"    // the same text
	Alone   Change = "alone"   // only one of both has the row
	Foreign Change = "foreign" // the row asks something else
)

var changes = []Change{Lost, Won, Other, TheSame, Alone, Foreign}

// Pair is the answers of two evaluations to the same row. One may be nil.
type Pair struct {
	Change Change `json:"change"`
	A      *Held  `json:"a"`
	B      *Held  `json:"b"`
}

// Any returns an answer of the pair, which has the row.
func (p *Pair) Any() *Held {
	if p.A != nil {
		return p.A
	}
	return p.B
}

// Pairs returns the answers of two evaluations side by side: first those that are wrong now, then those that are right
// now, then the others, each in the order of the rows.
func Pairs(a, b []*Held) (all []Pair) {
	before := map[string]*Held{}
	for _, h := range a {
		before[h.key()] = h
	}
	for _, h := range b {
		old := before[h.key()]
		delete(before, h.key())
		all = append(all, Pair{changeOf(old, h), old, h})
	}
	for _, h := range a {
		if before[h.key()] != nil {
			all = append(all, Pair{Alone, h, nil})
		}
	}
	slices.SortStableFunc(all, func(a, b Pair) int {
		return cmp.Compare(slices.Index(changes, a.Change), slices.Index(changes, b.Change))
	})
	return all
}

// Changes counts the pairs of each change.
func Changes(pairs []Pair) map[Change]int {
	n := map[Change]int{}
	for _, p := range pairs {
		n[p.Change]++
	}
	return n
}

// Says reports whether a question, a truth or an answer of some rollouts, which may be nil, has a text, in upper or
// lower case.
func Says(search string, all ...*Held) bool {
	text := ""
	for _, h := range all {
		if h != nil {
			text += h.Prompt + "\n" + h.Truth + "\n" + h.Response + "\n" + h.Reason + "\n" + string(h.Chat) + "\n"
		}
	}
	return strings.Contains(strings.ToLower(text), strings.ToLower(search))
}

func changeOf(a, b *Held) Change {
	switch {
	case a == nil:
		return Alone
	case a.Prompt != b.Prompt || a.Truth != b.Truth:
		return Foreign
	case a.Verdict == Right && b.Verdict != Right:
		return Lost
	case a.Verdict != Right && b.Verdict == Right:
		return Won
	case a.Response != b.Response:
		return Other
	}
	return TheSame
}

// ChosenPairs returns the pairs that have a text, in upper or lower case, and of them those that have changed (""), have any
// one of the changes, are wrong in the second evaluation (wrong), or all.
func ChosenPairs(pairs []Pair, which, search string) (all []Pair, err error) {
	is := map[string]func(Pair) bool{
		"changed": func(p Pair) bool { return p.Change == Lost || p.Change == Won },
		"wrong":   func(p Pair) bool { return p.B != nil && p.B.Verdict.IsWrong() },
		"all":     func(Pair) bool { return true },
	}[cmp.Or(which, "changed")]
	if is == nil && slices.Contains(changes, Change(which)) {
		is = func(p Pair) bool { return p.Change == Change(which) }
	}
	if is == nil {
		return nil, fmt.Errorf("which is %.100q: want changed, wrong, all, lost, won, other, same, alone or foreign", which)
	}
	for _, p := range pairs {
		if is(p) && Says(search, p.A, p.B) {
			all = append(all, p)
		}
	}
	return all, nil
}
