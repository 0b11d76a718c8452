package view

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// evaluations writes a run whose row 0 becomes wrong, row 1 right, row 2 another text, and row 3 stays; row 4 failed at
// first and row 5 comes later.
func evaluations(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	w, err := trace.New(trace.Options{Dir: filepath.Join(dir, "r", rundir.Traces), Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	one, nought, first := 1.0, 0.0, int64(0)
	for step, said := range map[int64][]string{4: {"+a", "-b", "-c", "+d\x1b[2J", ""}, 8: {"-a2", "+b2", "-c2", "+d\x1b[2J", "+e", "+f"}} {
		var rows []trace.Evaluated
		for i, text := range said {
			row := trace.Evaluated{Taskset: "few", Row: int64(i), Run: &first, Step: step, Prompt: "Q?", Truth: "T"}
			switch {
			case text == "":
				row.Run, row.Reason = nil, "timeout"
			case text[0] == '+':
				row.Reward, row.Response = &one, text[1:]
			default: // the form was right, and so the reward is above 0
				row.Reward, row.Parts, row.Response = &one, `{"accuracy":0,"format_score":1}`, text[1:]
			}
			rows = append(rows, row)
		}
		if step == 8 { // a last turn, whose prompt is another
			rows = append(rows, trace.Evaluated{
				Taskset: "few", Row: 5, Run: &first, Turn: 1, Prompt: "wall", Truth: "T", Response: "end", Reward: &nought,
				Chat: `[{"role":"user","content":"Q?"},{"role":"assistant","content":"f"}]`,
			})
		}
		w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: step, Rows: rows})
	}
	w.Evaluation(trace.Evaluation{Who: trace.OfBench, Step: 9, Rows: nil})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAnswersSideBySide(t *testing.T) {
	dir := evaluations(t)
	c, err := Compare("", dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := c.Print(&out, false, Choice{}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"A  " + dir + "@4: 2 of 5 answers right (40 %)\nB  " + dir + "@8: 3 of 6 answers right (50 %)\n",
		"1 right → wrong, 2 wrong → right, 1 with the same verdict and another text, 1 the same; only one of both has 1 row\n",
		"\nfew, row 0: right → wrong\n  question  Q?\n  right     T\n  A         a\n            ✓ right reward 1\n  B         a2\n" +
			"            ✗ wrong reward 1\n",
		"few, row 4: wrong → right\n  question  Q?\n  right     T\n  A         no valid reward: timeout\n  B         e\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "row 2") || strings.Contains(text, "row 3") || strings.Index(text, "row 0") > strings.Index(text, "row 1") {
		t.Errorf("order or choice of\n%s", text)
	}
	for want, o := range map[string]Choice{
		"few, row 3\n  question  Q?\n  right     T\n  A         d\\x1b[2J\n": {All: true, Search: "D"},
		"few, row 5: only one has it\n":                                      {All: true, Search: "[{"},
		"few, row 2\n":                                                       {Wrong: true},
	} {
		out.Reset()
		if err := c.Print(&out, false, o); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%+v: no %q in\n%s", o, want, out.String())
		}
	}
	e, err := ReadEvaluated(dir+"@8", 0)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := e.Print(&out, true, Choice{}); err != nil ||
		!strings.Contains(out.String(), "  given     [user] Q?⏎\n            [assistant] f\n") ||
		!strings.Contains(out.String(), bad+"✗ wrong"+plain) || strings.Index(out.String(), "row 1") < strings.Index(out.String(), "row 5") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestPlacesOfEvaluations(t *testing.T) {
	dir := evaluations(t)
	empty := t.TempDir()
	other := filepath.Join(t.TempDir(), "other.jsonl")
	line := `{"taskset":"few","row":0,"run":0,"prompt":"Else?","truth":"T","response":"a","reward":1}`
	if err := os.WriteFile(other, []byte(line+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ a, b, want string }{
		{"", dir + "@4", "no evaluation before that of step 4 is kept"},
		{"", dir + "@7", "no evaluation of step 7 is kept: there are those of 4 8 bench-9"},
		{"", dir + "@bench-9", "no evaluation before that of step bench-9"},
		{"", empty, "no evaluation is kept below " + empty},
		{other, dir, "have no row in common that asks the same"},
		{"nowhere", dir, "no run in nowhere"},
	} {
		if _, err := Compare(c.a, c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s and %s: %v, want %q", c.a, c.b, err, c.want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	for _, c := range []struct {
		reward        *float64
		parts, reason string
		want          trace.Verdict
	}{
		{v(1), `{"accuracy":1}`, "", trace.Right}, {v(.5), `{"accuracy":0,"format_score":0.5}`, "", trace.Wrong},
		{v(-1), "null", "", trace.Wrong},
		{v(.1), "", "", trace.Right}, {v(0), "{", "", trace.Wrong}, {nil, "", "no number", trace.Invalid}, {nil, "null", "", trace.NotSaid},
	} {
		if got := trace.VerdictOf(c.reward, c.parts, c.reason); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The worst groups, wrong answers and a text are found.
func TestChosenAnswers(t *testing.T) {
	dir := written(t)
	for _, c := range []struct {
		o          Options
		has, lacks string
	}{
		{Options{Groups: 1}, "task b,", "task a, explorer"},
		{Options{Wrong: true}, "run 1: ✗ wrong", "✓"},
		{Options{Search: "WHAT?", Task: "a"}, "run 0: ✓ right", "task b, explorer"},
		{Options{Search: "nothing has this"}, "0 answers", "run 0: ✓"},
	} {
		if text := shown(t, dir, c.o, false, false); !strings.Contains(text, c.has) || strings.Contains(text, c.lacks) {
			t.Errorf("%+v:\n%s", c.o, text)
		}
	}
}

// What the right answer would have been stands beside the answers and the failures.
func TestTheRightAnswerIsShown(t *testing.T) {
	dir := t.TempDir()
	w, err := trace.New(trace.Options{
		Dir: dir + "/" + rundir.Traces, Text: func(int32) string { return "x" }, Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	one := answer("a", 0, valid(0), .5)
	one.Truth = "42\x1b[2J"
	w.Trained(trinity.Trained{Step: 7, Experiences: []trinity.TrainedExperience{one}})
	w.Failed(trinity.FailedRollout{
		ID: trinity.ExperienceID{Step: 3, Task: "a"}, Role: trinity.RoleExplorer, Kind: trinity.FailedTool, Question: "6*7?", Truth: "42",
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	text := shown(t, dir, Options{}, false, false)
	page, _, err := Export(dir, Options{})
	for _, want := range []string{"right answer: 42\\x1b[2J\n", "question: 6*7?\nright answer: 42\n"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v, no %q in\n%s", err, want, text)
		}
	}
	for _, want := range []string{
		"<p>Right answer: <b>42\\x1b[2J</b></p>", `<b class="wrong">✗ wrong</b>`, "question: 6*7?\nright answer: 42</pre>",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
