package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/safetext"
)

// printDebugged writes what became of a group: each rollout with its calls, and then the pipeline.
func printDebugged(w io.Writer, d *record.Debugged) {
	fmt.Fprintf(w, "task %s: workflow %s, reward %s, %d rollouts\n", safetext.Printable(d.Task.ID), d.Task.Workflow,
		cmp.Or(d.Task.Reward, "of the workflow"), d.Task.GroupSize)
	for _, name := range slices.Sorted(maps.Keys(d.Task.Row)) {
		fmt.Fprintf(w, "  %s: %s\n", safetext.Printable(name), inShort(d.Task.Row[name]))
	}
	printPrompts(w, d)
	for n := range runsOf(d) {
		printRollout(w, d, n)
	}
	for _, err := range d.Broken {
		line, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(w, "not in the group: %s\n", safetext.Printable(line))
	}
	fmt.Fprintln(w, "pipeline")
	for _, s := range d.Spans {
		if s.Kind == trinity.SpanOperator {
			fmt.Fprintf(w, "  %s: %s\n", s.Name, took(s.Begin, s.End))
		}
	}
	if d.Later {
		fmt.Fprintln(w, "  the trainer computes the advantage of this algorithm, over the whole batch")
	}
	for _, name := range slices.Sorted(maps.Keys(d.Metrics)) {
		if !strings.HasPrefix(name, "time/") {
			fmt.Fprintf(w, "  %s: %.6g\n", name, d.Metrics[name])
		}
	}
}

// printPrompts writes the prompt of the first call, which the others of a group usually have too.
func printPrompts(w io.Writer, d *record.Debugged) {
	if len(d.Calls) > 0 {
		fmt.Fprintf(w, "prompt, as the model reads it:\n  %s\n", indented(d.Text(d.Calls[0].Prompt)))
	}
}

// runsOf returns how many rollouts began.
func runsOf(d *record.Debugged) int {
	n := 0
	for _, s := range d.Spans {
		if s.Kind == trinity.SpanRollout {
			n = max(n, s.Experience.Run+1)
		}
	}
	return n
}

// printRollout writes a rollout: its times, its calls and rewards in order, and its answers.
func printRollout(w io.Writer, d *record.Debugged, n int) {
	var spans []trinity.Span
	for _, s := range d.Spans {
		if s.Experience.Run != n || s.Kind == trinity.SpanOperator {
			continue
		}
		if s.Kind == trinity.SpanRollout {
			fmt.Fprintf(w, "run %d: %s\n", n, took(s.Begin, s.End))
		} else {
			spans = append(spans, s)
		}
	}
	slices.SortStableFunc(spans, func(a, b trinity.Span) int { return a.Begin.Compare(b.Begin) })
	var calls []record.ModelCall
	for _, c := range d.Calls {
		if c.ID.Run == n {
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, func(a, b record.ModelCall) int { return a.Begin.Compare(b.Begin) })
	known := d.Calls[:min(1, len(d.Calls))] // whose prompt is shown above
	next := func() {
		printCall(w, d, &calls[0], known)
		known, calls = calls[:1], calls[1:]
	}
	for _, s := range spans {
		switch {
		case s.Kind == trinity.SpanWait:
			fmt.Fprintf(w, "  waits for %s: %s\n", s.For, took(s.Begin, s.End))
		case s.Kind == trinity.SpanReward:
			fmt.Fprintf(w, "  reward function: %s\n", took(s.Begin, s.End))
		case s.Kind == trinity.SpanCall && len(calls) > 0:
			next()
		}
	}
	for len(calls) > 0 { // in flight at the failure
		next()
	}
	for _, f := range d.Failed {
		if f.ID.Run == n {
			fmt.Fprintf(w, "  failed by %s after %d retries: %s\n", f.Kind, f.Retries, indented(f.Reason))
		}
	}
	for i := range d.Answers {
		if d.Answers[i].ID.Run == n {
			printAnswer(w, &d.Answers[i])
		}
	}
}

// printCall writes a call of a model. Of its prompt it writes what the call before does not have.
func printCall(w io.Writer, d *record.Debugged, c *record.ModelCall, before []record.ModelCall) {
	fmt.Fprintf(w, "  call of %s: %s, %d tokens in", cmp.Or(c.Model, "the policy"), took(c.Begin, c.End), len(c.Prompt))
	for _, out := range c.Out {
		fmt.Fprintf(w, ", %d out (%s)", len(out.Tokens), out.FinishReason)
	}
	fmt.Fprintln(w)
	if n := alike(c, before); n < len(c.Prompt) {
		after := ""
		if n > 0 {
			after = fmt.Sprintf(" after the same %d tokens", n)
		}
		fmt.Fprintf(w, "    reads%s %s\n", after, indented(d.Text(c.Prompt[n:])))
	}
	for _, out := range c.Out {
		fmt.Fprintf(w, "    says %s\n", indented(d.Text(out.Tokens)))
	}
	if c.Err != nil {
		fmt.Fprintf(w, "    fails: %s\n", safetext.Printable(c.Err.Error()))
	}
}

// alike returns how many tokens at the beginning of a call's prompt the call before has, too.
func alike(c *record.ModelCall, before []record.ModelCall) (n int) {
	if len(before) == 0 {
		return 0
	}
	known := slices.Clone(before[0].Prompt)
	if len(before[0].Out) > 0 && !slices.Equal(known, c.Prompt) {
		known = append(known, before[0].Out[0].Tokens...)
	}
	for n < min(len(known), len(c.Prompt)) && known[n] == c.Prompt[n] {
		n++
	}
	return n
}

// printAnswer writes the reward of an experience, its advantage, and who dropped it.
func printAnswer(w io.Writer, e *trinity.TrainedExperience) {
	line := "no reward"
	switch r := e.Reward; {
	case r.Valid:
		line = fmt.Sprintf("reward %.6g", r.Value)
		for _, name := range slices.Sorted(maps.Keys(r.Parts)) {
			line += fmt.Sprintf(", %s %.6g", name, r.Parts[name])
		}
	case r.Reason != "":
		line = "no valid reward: " + safetext.Printable(r.Reason)
	}
	fmt.Fprintf(w, "  turn %d: %s", e.ID.Turn, line)
	if advantage, ok := firstOf(e); ok {
		fmt.Fprintf(w, ", advantage %+.4g", advantage)
	}
	fmt.Fprintf(w, ", %d tokens to learn", e.TrainedTokens())
	if e.Truncated != "" {
		fmt.Fprintf(w, ", %s", e.Truncated)
	}
	if e.Dropped != "" {
		fmt.Fprintf(w, ", dropped by %s", e.Dropped)
	}
	fmt.Fprintln(w)
}

// firstOf returns the advantage of the first token to learn.
func firstOf(e *trinity.TrainedExperience) (float32, bool) {
	for t, learned := range e.Mask {
		if learned && t < len(e.Advantages) {
			return e.Advantages[t], true
		}
	}
	return 0, false
}

func took(begin, end time.Time) string { return fmt.Sprintf("%.3f s", end.Sub(begin).Seconds()) }

// indented returns text in lines of their own, as text.
func indented(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := range lines {
		lines[i] = safetext.Printable(lines[i])
	}
	return strings.Join(lines, "\n      ")
}

// inShort returns the beginning of a value of a row.
func inShort(value any) string {
	const most = 200
	text, ok := value.(string)
	if !ok {
		data, err := json.Marshal(value)
		if text = string(data); err != nil {
			text = fmt.Sprint(value)
		}
	}
	runes := []rune(safetext.Printable(text))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}
