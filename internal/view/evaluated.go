package view

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// Evaluated is the answers of one evaluation, a rollout each.
type Evaluated struct {
	Name    string // of the run or the file, with the step
	Step    int64
	Answers []*Held
}

// Held is what one rollout answered to a held-out row.
type Held struct {
	trace.Evaluated               // of the last turn, with the prompt of the first
	Verdict         trace.Verdict `json:"verdict"`
	Number          int           `json:"repeat"` // of the row, also of one that failed
}

// key tells answers of two evaluations that belong together.
func (h *Held) key() string { return fmt.Sprintf("%s\x00%d\x00%d", h.Taskset, h.Row, h.Number) }

// heldOf returns the rollouts of an evaluation's rows, in the order of the rows.
func heldOf(rows []trace.Evaluated) (all []*Held) {
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
		h.Verdict = trace.VerdictOf(h.Reward, string(h.Parts), h.Reason)
	}
	return all
}

// Evaluations returns the directory of the evaluations of a run, those of its newest stage that has some, by step.
func Evaluations(dir string) ([]trace.EvaluationFile, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, path := range run.Traces {
		if all, err := trace.Evaluations(path); len(all) > 0 || err != nil {
			return all, err
		}
	}
	return nil, fmt.Errorf("no evaluation is kept below %s: give the directory of a run that has buffer.explorer_input.eval_tasksets "+
		"and has evaluated, or a file that trinity eval --output has written", dir)
}

// ReadEvaluated reads an evaluation: a file of answers, or RUN or RUN@STEP, where RUN is the directory of a run or of a
// stage. Without a step it is the newest; it is back evaluations before that.
func ReadEvaluated(place string, back int) (*Evaluated, error) {
	if info, err := os.Stat(place); err == nil && info.Mode().IsRegular() {
		rows, err := trace.ReadEvaluated(place)
		return &Evaluated{Name: place, Answers: heldOf(rows)}, err
	}
	dir, step := place, ""
	if _, err := os.Stat(place); err != nil { // a name of a directory may have an @
		if at := strings.LastIndexByte(place, '@'); at > 0 {
			dir, step = place[:at], place[at+1:]
		}
	}
	all, err := Evaluations(dir)
	if err != nil {
		return nil, err
	}
	file, err := choose(all, step, back)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	rows, err := trace.ReadEvaluated(file.Path)
	return &Evaluated{Name: filepath.Clean(dir) + "@" + nameOf(file), Step: file.Step, Answers: heldOf(rows)}, err
}

// nameOf names an evaluation of a run: its step, and who made it if that is not the run's explorer.
func nameOf(f trace.EvaluationFile) string {
	if f.Who == trace.OfRun {
		return fmt.Sprint(f.Step)
	}
	return fmt.Sprintf("%s-%d", f.Who, f.Step)
}

// choose returns the evaluation of this name; "" is the newest. With back it is one of the same
// explorer before it.
func choose(all []trace.EvaluationFile, name string, back int) (trace.EvaluationFile, error) {
	var names []string
	for _, f := range all {
		names = append(names, nameOf(f))
	}
	at := slices.Index(names, name)
	if name == "" {
		at = len(all) - 1
		for i, f := range all { // the run's own come first
			if f.Who == trace.OfRun {
				at = i
			}
		}
	}
	if at < 0 {
		return trace.EvaluationFile{}, fmt.Errorf("no evaluation of step %s is kept: there are those of %s", name, listed(names))
	}
	for i := at; back > 0 && i > 0; {
		if i--; all[i].Who == all[at].Who {
			at, back = i, back-1
		}
	}
	if back > 0 {
		return all[at], fmt.Errorf("no evaluation before that of step %s is kept", nameOf(all[at]))
	}
	return all[at], nil
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

// any returns an answer of the pair, which has the row.
func (p *Pair) any() *Held {
	if p.A != nil {
		return p.A
	}
	return p.B
}

// Pairs returns the answers of two evaluations side by side: first those that are wrong now, then those that are right
// now, then the others, each in the order of the rows.
func Pairs(a, b *Evaluated) (all []Pair) {
	before := map[string]*Held{}
	for _, h := range a.Answers {
		before[h.key()] = h
	}
	for _, h := range b.Answers {
		old := before[h.key()]
		delete(before, h.key())
		all = append(all, Pair{changeOf(old, h), old, h})
	}
	for _, h := range a.Answers {
		if before[h.key()] != nil {
			all = append(all, Pair{Alone, h, nil})
		}
	}
	slices.SortStableFunc(all, func(a, b Pair) int {
		return cmp.Compare(slices.Index(changes, a.Change), slices.Index(changes, b.Change))
	})
	return all
}

func changeOf(a, b *Held) Change {
	switch {
	case a == nil:
		return Alone
	case a.Prompt != b.Prompt || a.Truth != b.Truth:
		return Foreign
	case a.Verdict == trace.Right && b.Verdict != trace.Right:
		return Lost
	case a.Verdict != trace.Right && b.Verdict == trace.Right:
		return Won
	case a.Response != b.Response:
		return Other
	}
	return TheSame
}

// errNothingShared is the error of two evaluations without a common row.
var errNothingShared = errors.New("the evaluations have no row in common that asks the same: compare evaluations of the same tasksets")
