package studio

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// writeEvaluation writes an evaluation with these rewards of its rows; a negative one is none.
func writeEvaluation(t *testing.T, dir string, step int64, rewards ...float64) {
	t.Helper()
	w, err := trace.New(trace.Options{Dir: filepath.Join(dir, rundir.Traces), Say: func(line string) { t.Error(line) }})
	if err != nil {
		t.Fatal(err)
	}
	var rows []trace.Evaluated
	run := int64(0)
	for i, reward := range rewards {
		row := trace.Evaluated{
			Taskset: "few", Row: int64(i), Run: &run, Step: step, Prompt: hostile, Truth: "T", Response: strings.Repeat("é", maxShown+1),
			Reason: "none", Chat: `[{"role":"user","content":"<b>"}]`,
		}
		if reward >= 0 {
			row.Reward, row.Reason = &reward, ""
		}
		rows = append(rows, row)
	}
	w.Evaluation(trace.Evaluation{Who: trace.OfRun, Step: step, Rows: rows})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// Two evaluations stand side by side: of two runs, of one, or one alone.
func TestAnswersOfEvaluations(t *testing.T) {
	dir, s := site(t, "")
	writeEvaluation(t, filepath.Join(dir, "a"), 4, 1, 0, 0)
	writeEvaluation(t, filepath.Join(dir, "a"), 8, 0, 1, 0)
	writeEvaluation(t, filepath.Join(dir, "b"), 8, 1, 1, -1)
	read := func(path string, into any) {
		t.Helper()
		status, text := get(t, s, path)
		if err := json.Unmarshal([]byte(text), into); status != http.StatusOK || err != nil {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	var listed struct{ Evaluations []string }
	read("/api/v1/runs/a/evaluations", &listed)
	if got := strings.Join(listed.Evaluations, " "); got != "4 8" {
		t.Errorf("evaluations %s", got)
	}
	type reply struct {
		A, B   *heldSide
		Counts map[string]int
		Of     int
		Pairs  []heldPair
	}
	for _, c := range []struct {
		query            string
		lost, won, pairs int
	}{
		{"run=a&at=4&run=a&at=8", 1, 1, 2}, {"run=a&at=8&run=b&at=8", 0, 1, 1}, {"run=a&at=4&run=a&at=8&which=all", 1, 1, 3},
		{"run=a&at=4&run=a&at=8&which=wrong", 1, 1, 2}, {"run=a&at=4&run=a&at=8&which=lost", 1, 1, 1},
		{"run=a&at=4&run=a&at=8&which=all&q=nothing", 1, 1, 0}, {"run=a&at=4&run=b&at=8&which=wrong", 0, 1, 1},
		{"run=a&at=&run=a&at=8&which=wrong", 0, 0, 2},
	} {
		var got reply
		read("/api/v1/answers?"+c.query, &got)
		if got.Counts["lost"] != c.lost || got.Counts["won"] != c.won || len(got.Pairs) != c.pairs || got.Of != c.pairs || got.B.N != 3 {
			t.Errorf("%s: %+v", c.query, got)
		}
	}
	for taskset, n := range map[string]int{"few": 3, "other": 0} {
		var got reply
		if read("/api/v1/answers?run=a&at=4&run=a&at=8&which=all&taskset="+taskset, &got); got.B.N != n || len(got.Pairs) != n {
			t.Errorf("taskset %s: %+v", taskset, got)
		}
	}
	var got reply
	read("/api/v1/answers?run=a&at=4&run=a&at=8", &got)
	p := got.Pairs[0]
	if p.Change != "lost" || p.Truth != "T" || p.Prompt != hostile || p.A.Verdict != "right" || !p.A.Cut ||
		len([]rune(p.A.Response)) != maxShown || !strings.Contains(string(p.B.Chat), "content") || got.A.Right != 1 {
		t.Errorf("%+v", p)
	}
}

func TestAnswersThatAreNotThere(t *testing.T) {
	dir, s := site(t, "")
	writeEvaluation(t, filepath.Join(dir, "a"), 4, 1)
	outside := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "a", rundir.Traces, "evaluated", "step-9.parquet")
	if err := os.Symlink(outside, link); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(link), "step-5.parquet"), []byte("PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	for query, status := range map[string]int{
		"run=a&at=4": http.StatusBadRequest, "run=a&at=4&run=a&at=7": http.StatusNotFound, "run=a&at=4&run=a&at=9": http.StatusNotFound,
		"run=a&at=4&run=no&at=4": http.StatusNotFound, "run=a&at=4&run=a&at=4&which=x": http.StatusBadRequest,
		"run=a&at=4&run=a&at=5": http.StatusInternalServerError,
	} {
		if got, text := get(t, s, "/api/v1/answers?"+query); got != status {
			t.Errorf("%s: %d %s", query, got, text)
		}
	}
}
