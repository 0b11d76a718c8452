package monitor

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
)

// steps returns the role and step of every line.
func steps(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		var r struct {
			Step    int64
			Role    string
			Metrics map[string]any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, fmt.Sprintf("%s%d", r.Role[:1], r.Step))
	}
	return strings.Join(out, " ")
}

func TestJSONLWritesOneLinePerRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "monitor")
	m := openOne(t, "jsonl", Run{Dir: dir})
	logAll(t, m, rec("trainer", 3, trinity.Metrics{"b": 1, "a/x": math.NaN(), "c": math.Inf(-1), "d": math.Inf(1), "e": 1e-7}))
	data, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	want := `{"step":3,"role":"trainer","time":"2026-01-02T12:00:30.005Z","metrics":{"a/x":"NaN","b":1,"c":"-Infinity",` +
		`"d":"Infinity","e":1e-7}}` + "\n"
	if err != nil || string(data) != want {
		t.Errorf("got %s%v, want %s", data, err, want)
	}
}

func TestJSONLResumeLogsNoStepTwice(t *testing.T) {
	dir := t.TempDir()
	m := openOne(t, "jsonl", Run{Dir: dir})
	none := trinity.Metrics{}
	logAll(t, m, rec("explorer", 0, trinity.Metrics{"eval/x": 1}))
	for s := range int64(4) {
		logAll(t, m, rec("explorer", s+1, none), rec("trainer", s+1, none))
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "metrics.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"step":5,"role":"tr`); err != nil { // a kill truncated this write
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	m = openOne(t, "jsonl", Run{Dir: dir, FromStep: 2}) // the explorer is a step ahead of the checkpoint
	logAll(t, m, rec("explorer", 4, none), rec("trainer", 3, none), rec("trainer", 4, none), rec("explorer", 4, trinity.Metrics{"eval/x": 1}))
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := steps(t, dir), "e0 e1 t1 e2 t2 e3 e4 t3 t4 e4"; got != want {
		t.Errorf("after a resume: %s, want %s", got, want)
	}

	m = openOne(t, "jsonl", Run{Dir: dir})
	logAll(t, m, rec("explorer", 0, trinity.Metrics{"bench/x/mean@1": 1}), rec("explorer", 2, trinity.Metrics{"bench/x/mean@1": 1}))
	if got, want := steps(t, dir), "e0 e1 t1 e2 t2 e3 e4 t3 t4 e4 e0 e2"; got != want {
		t.Errorf("after mode bench: %s, want %s", got, want)
	}

	m = openOne(t, "jsonl", Run{Dir: dir})
	logAll(t, m, rec("explorer", 1, none), rec("trainer", 1, none))
	if got, want := steps(t, dir), "e0 e0 e1 t1"; got != want {
		t.Errorf("after a new start: %s, want %s", got, want)
	}
}

// The evaluation of an earlier step, which a resumed run repeats, replaces its own record alone.
func TestJSONLResumeRepeatsAnEvaluation(t *testing.T) {
	dir := t.TempDir()
	none, eval := trinity.Metrics{"rollout/x": 1}, trinity.Metrics{"eval/x": 1, "time/eval": 2}
	m := openOne(t, "jsonl", Run{Dir: dir})
	logAll(t, m, rec("explorer", 1, none), rec("explorer", 2, none), rec("explorer", 3, none), rec("explorer", 1, eval),
		rec("explorer", 4, none))
	m = openOne(t, "jsonl", Run{Dir: dir, FromStep: 3})
	logAll(t, m, rec("explorer", 1, eval), rec("explorer", 4, none), rec("explorer", 5, none))
	if got, want := steps(t, dir), "e1 e2 e3 e1 e4 e5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJSONLAcceptsManyGoroutines(t *testing.T) {
	dir := t.TempDir()
	m := openOne(t, "jsonl", Run{Dir: dir})
	var wg sync.WaitGroup
	for _, role := range []string{"explorer", "trainer"} {
		wg.Go(func() {
			for s := range int64(50) {
				if err := m.Log(t.Context(), rec(role, s+1, trinity.Metrics{"x": float64(s)})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := len(strings.Fields(steps(t, dir))); n != 100 {
		t.Errorf("%d whole lines, want 100", n)
	}
}

func TestJSONLServesTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	none := trinity.Metrics{}
	first := openOne(t, "jsonl", Run{Dir: dir})
	logAll(t, first, rec("explorer", 1, none), rec("explorer", 2, none), rec("trainer", 1, none))
	second := openOne(t, "jsonl", Run{Dir: dir})
	logAll(t, second, rec("explorer", 2, none)) // replaces the file
	logAll(t, first, rec("trainer", 2, none))
	if got, want := steps(t, dir), "e1 t1 e2 t2"; got != want {
		t.Errorf("the file has %s, want %s", got, want)
	}
	f, err := os.OpenFile(filepath.Join(dir, "metrics.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"step":3,"role":"expl`) // a killed process leaves this
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	logAll(t, first, rec("trainer", 3, none))
	if got, want := steps(t, dir), "e1 t1 e2 t2 t3"; got != want {
		t.Errorf("after a kill the file has %s, want %s", got, want)
	}
}

// A killed run in mode bench evaluates again. Its record replaces the same evaluation and no other.
func TestJSONLKeepsOneRecordOfABench(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		m := openOne(t, "jsonl", Run{Dir: dir})
		logAll(t, m, rec("explorer", 0, trinity.Metrics{"bench/x/mean@1": math.NaN()}), rec("explorer", 0, trinity.Metrics{"bench/y/mean@1": 1}),
			rec("explorer", 4, trinity.Metrics{"bench/x/mean@1": 1}))
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := steps(t, dir); got != "e0 e0 e4" {
		t.Errorf("got records %s, want e0 e0 e4", got)
	}
}
