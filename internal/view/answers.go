package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/trace"
)

// Choice says which answers of evaluations are shown.
type Choice struct {
	Wrong  bool   // only those that are wrong, of two evaluations all that are wrong in the second
	Search string // only those whose question, truth or answers have this text, in upper or lower case
	All    bool   // of two evaluations: also those that have not changed
	Worst  int    // only this many, those with the lowest rewards; 0 is all
}

// Print writes the answers of one evaluation. Wrong ones come first.
func (e *Evaluated) Print(w io.Writer, coloured bool, c Choice) error {
	out := writer{coloured: coloured}
	fmt.Fprintf(&out, "%s: %s\n", out.style(bold, safetext.Printable(e.Name)), e.summary())
	for _, h := range e.chosen(c) {
		out.row(h, "")
		out.given("given", h)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// chosen returns the answers of a choice, wrong ones first.
func (e *Evaluated) chosen(c Choice) []*trace.Held {
	all := slices.DeleteFunc(slices.Clone(e.Answers), func(h *trace.Held) bool {
		return c.Wrong && !h.Verdict.IsWrong() || !trace.Says(c.Search, h)
	})
	slices.SortStableFunc(all, func(a, b *trace.Held) int { return cmp.Compare(rank(a), rank(b)) })
	if c.Worst > 0 {
		slices.SortStableFunc(all, func(a, b *trace.Held) int { return cmp.Compare(rewarded(a.Reward), rewarded(b.Reward)) })
		all = all[:min(c.Worst, len(all))]
	}
	return all
}

func rank(h *trace.Held) int {
	return slices.Index([]trace.Verdict{trace.Wrong, trace.Invalid, trace.NotSaid, trace.Right}, h.Verdict)
}

func (e *Evaluated) summary() string {
	n, right := len(e.Answers), trace.RightOf(e.Answers)
	return fmt.Sprintf("%d of %s right (%.3g %%)", right, counted(n, "answer"), 100*float64(right)/float64(max(1, n)))
}

// JSON writes one object for each answer of a choice.
func (e *Evaluated) JSON(w io.Writer, c Choice) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, h := range e.chosen(c) {
		if err := out.Encode(h); err != nil {
			return err
		}
	}
	return nil
}

// Compared is two evaluations side by side.
type Compared struct {
	A, B  *Evaluated
	Pairs []trace.Pair
}

// Compare reads two evaluations, each as [ReadEvaluated] has it; "" for a is the one before b.
func Compare(a, b string) (c *Compared, err error) {
	c = &Compared{}
	back := 0
	if a == "" {
		a, back = b, 1
	}
	if c.A, err = ReadEvaluated(a, back); err != nil {
		return nil, err
	}
	if c.B, err = ReadEvaluated(b, 0); err != nil {
		return nil, err
	}
	c.Pairs = trace.Pairs(c.A.Answers, c.B.Answers)
	if !slices.ContainsFunc(c.Pairs, func(p trace.Pair) bool { return p.Change != trace.Alone && p.Change != trace.Foreign }) {
		return nil, fmt.Errorf("%s and %s: %w", c.A.Name, c.B.Name, errNothingShared)
	}
	return c, nil
}

// chosen returns the pairs of a choice.
func (c *Compared) chosen(o Choice) []trace.Pair {
	which := "changed"
	switch {
	case o.Wrong:
		which = "wrong"
	case o.All:
		which = "all"
	}
	all, _ := trace.ChosenPairs(c.Pairs, which, o.Search) // which is one of its own words
	return all
}

// Print writes how many answers have changed, and then the answers: those that have become wrong come first.
func (c *Compared) Print(w io.Writer, coloured bool, o Choice) error {
	out, n := writer{coloured: coloured}, trace.Changes(c.Pairs)
	for i, e := range []*Evaluated{c.A, c.B} {
		fmt.Fprintf(&out, "%c  %s: %s\n", 'A'+i, out.style(bold, safetext.Printable(e.Name)), e.summary())
	}
	fmt.Fprintf(&out, "%d right → wrong, %d wrong → right, %d with the same verdict and another text, %d the same",
		n[trace.Lost], n[trace.Won], n[trace.Other], n[trace.TheSame])
	if n[trace.Alone] > 0 {
		fmt.Fprintf(&out, "; only one of both has %s", counted(n[trace.Alone], "row"))
	}
	if n[trace.Foreign] > 0 {
		fmt.Fprintf(&out, "; in %s they are asked something else", counted(n[trace.Foreign], "row"))
	}
	out.WriteString("\n")
	words := map[trace.Change]string{
		trace.Lost: "right → wrong", trace.Won: "wrong → right", trace.Alone: "only one has it", trace.Foreign: "another question",
	}
	for _, p := range c.chosen(o) {
		out.row(p.Any(), words[p.Change])
		out.given("A", p.A)
		out.given("B", p.B)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// JSON writes one object: the counts and the pairs of a choice.
func (c *Compared) JSON(w io.Writer, o Choice) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(struct {
		A      string               `json:"a"`
		B      string               `json:"b"`
		Counts map[trace.Change]int `json:"counts"`
		Pairs  []trace.Pair         `json:"pairs"`
	}{c.A.Name, c.B.Name, trace.Changes(c.Pairs), c.chosen(o)})
}

// writer writes answers for people.
type writer struct {
	strings.Builder
	coloured bool
}

func (w *writer) style(code, text string) string {
	if !w.coloured || text == "" {
		return text
	}
	return code + text + plain
}

// row writes what a row asks, and its right answer.
func (w *writer) row(h *trace.Held, change string) {
	if change != "" {
		change = ": " + change
	}
	name := fmt.Sprintf("%s, row %d", safetext.Printable(h.Taskset), h.Row)
	if h.Number > 0 {
		name += fmt.Sprintf(", repeat %d", h.Number)
	}
	fmt.Fprintf(w, "\n%s\n", w.style(bold, name+change))
	w.field("question", h.Prompt)
	if h.Truth != "" {
		w.field("right", h.Truth)
	}
}

// given writes an answer with its verdict.
func (w *writer) given(name string, h *trace.Held) {
	if h == nil {
		return
	}
	text := h.Response
	if chat := h.Evaluated.Messages(); len(chat) > 0 {
		text = ""
		for _, m := range chat {
			text += "[" + m.Role + "] " + m.Content + "\n"
		}
		text = strings.TrimSuffix(text, "\n")
	}
	says := scoreOf(h.Reward, h.Reason)
	if text == "" {
		text, says = says, ""
	}
	w.field(name, text)
	if mark := mark(h.Verdict, w.style); mark != "" || says != "" {
		fmt.Fprintf(w, "            %s\n", strings.TrimSpace(mark+" "+says))
	}
}

// scoreOf writes a reward, or why there is none.
func scoreOf(reward *float64, reason string) string {
	switch {
	case reward != nil:
		return fmt.Sprintf("reward %.4g", *reward)
	case reason != "":
		return "no valid reward: " + safetext.Printable(reason)
	}
	return "no reward"
}

// The marks of right and wrong answers.
var marks = map[trace.Verdict]string{trace.Right: "✓ right", trace.Wrong: "✗ wrong"}

const (
	good = "\x1b[32m"
	bad  = "\x1b[31m"
)

// mark writes a verdict, in a colour and in a word.
func mark(v trace.Verdict, style func(code, text string) string) string {
	if v == trace.Wrong {
		return style(bad, marks[v])
	}
	return style(good, marks[v])
}

func (w *writer) field(name, text string) {
	fmt.Fprintf(w, "  %-9s %s\n", name, strings.ReplaceAll(lines(text), "\n", "\n            "))
}
