package view

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// untrained writes the trace of a run in which rollouts fail: with no train step, or with some that have
// no answers.
func untrained(t *testing.T, steps ...int64) string {
	t.Helper()
	dir := t.TempDir()
	for i, stage := range []string{"old", "r"} {
		w, err := trace.New(trace.Options{
			Dir: filepath.Join(dir, stage, rundir.Traces), Text: func(int32) string { return "<b>" }, Say: func(line string) { t.Error(line) },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			w.Trained(trinity.Trained{Step: step})
		}
		for step, fails := range []struct{ task, role string }{
			{"first", trinity.RoleExplorer}, {"a", trinity.RoleExplorer}, {"b", trinity.RoleEvaluation + " alice"},
		} {
			w.Failed(trinity.FailedRollout{
				ID: trinity.ExperienceID{Step: int64(min(step, 1)), Task: fails.task}, Role: fails.role, Kind: trinity.FailedTool,
				Reason: stage + " is broken\x1b[2J\n\tat <i>line 7</i>\n" + strings.Repeat("é", maxReason), Retries: 2, Sampled: []int32{2},
				Time: time.Unix(int64(1e9+i*100+step), 0),
			})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Without a train step, or without answers in it, the newest failures are there with their whole reasons.
func TestFailuresWithoutAnswers(t *testing.T) {
	for _, test := range []struct {
		steps       []int64
		title, want string
	}{
		{nil, "no train step is kept", "no train step is kept in "}, {[]int64{1}, "train step 1", "train step 1 of "},
	} {
		dir := filepath.Join(untrained(t, test.steps...), "r")
		text := shown(t, dir, Options{}, false, false)
		for _, want := range []string{
			test.want, "r/trace: no answers, and 2 failed rollouts of explorer step 1, the newest with failures\n",
			"\ntask a, run 0 failed by tool after 2 retries: r is broken\\x1b[2J\n        at <i>line 7</i>\n    é",
			"é\n    … and 34 more characters, which --json shows\n", "\nevaluation alice: task b, run 0 failed by tool",
			"its last call had sampled: <b>\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page lacks %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "first") || strings.Contains(text, "\x1b") {
			t.Errorf("the page has more than the newest step, or controls the terminal:\n%q", text)
		}
		if text := shown(t, dir, Options{Task: "first"}, false, false); !strings.Contains(text, "1 failed rollout of explorer step 0,") {
			t.Errorf("the page of a task:\n%s", text)
		}
		html, damaged, err := Export(dir, Options{})
		if err != nil || damaged != nil || !strings.Contains(string(html), "r is broken\\x1b[2J\n        at &lt;i&gt;line 7&lt;/i&gt;\n") ||
			!strings.Contains(strings.ToLower(string(html)), test.title+": no answers") {
			t.Errorf("%v, %v: %s", damaged, err, html)
		}
		p, err := Read(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := p.JSON(&out); err != nil {
			t.Fatal(err)
		}
		var read struct {
			Step     int64
			Failures []trace.Failure
		}
		if err := json.Unmarshal([]byte(out.String()), &read); err != nil || read.Step != p.Step || len(read.Failures) != 2 ||
			!strings.HasSuffix(read.Failures[1].Reason, "é") {
			t.Errorf("%v: %s", err, out.String())
		}
	}
	if p, err := Read(untrained(t), Options{}); err != nil || filepath.Base(filepath.Dir(p.Trace)) != "r" {
		t.Errorf("of two stages it does not take the one that failed last: %+v, %v", p, err)
	}
	for _, o := range []Options{{Step: 1}, {Task: "none"}} {
		if _, err := Read(untrained(t), o); err == nil || !strings.Contains(err.Error(), "no train step is kept below") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestLost(t *testing.T) {
	dropped, failed := trace.Failure{Kind: trinity.DroppedAnswer}, trace.Failure{Kind: trinity.FailedTool}
	for want, all := range map[string][]trace.Failure{
		"2 failed rollouts":                      {failed, failed},
		"1 dropped answer":                       {dropped},
		"1 failed rollout and 2 dropped answers": {dropped, failed, dropped},
	} {
		if got := lost(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
