package monitor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/rundir"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 5e6, time.UTC)

func rec(role string, step int64, m trinity.Metrics) trinity.Record {
	return trinity.Record{Role: role, Step: step, Time: noon.Add(time.Duration(step) * 10 * time.Second), Metrics: m}
}

func logAll(t *testing.T, m trinity.Monitor, records ...trinity.Record) {
	t.Helper()
	for _, r := range records {
		if err := m.Log(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// openOne opens one monitor and closes it at the end of the test.
func openOne(t *testing.T, name string, run Run) trinity.Monitor {
	t.Helper()
	ms, err := Open([]string{name}, nil, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ms[0].Close() }) // tests that read a file have closed it before
	return ms[0]
}

type fake struct {
	Level int `yaml:"level"`
	run   Run
}

func (f *fake) Log(_ context.Context, _ trinity.Record) error { return nil }
func (f *fake) Close() error                                  { return nil }
func (f *fake) Open(run Run) error                            { f.run = run; return nil }

func init() {
	Monitors.Register("test_a", "For tests.", func() trinity.Monitor { return &fake{} })
	Monitors.Register("test_b", "For tests.", func() trinity.Monitor { return &fake{} })
}

func TestOpenPassesArguments(t *testing.T) {
	run := Run{Dir: t.TempDir(), Name: "r", TotalSteps: 9}
	one, err := Open([]string{"test_a"}, map[string]any{"level": 3}, run)
	if got := one[0].(*fake); err != nil || got.Level != 3 || got.run.Name != run.Name || got.run.TotalSteps != 9 {
		t.Errorf("one monitor: %+v, %v", got, err)
	}
	two, err := Open([]string{"test_a", "test_b"}, map[string]any{"test_b": map[string]any{"level": 4}}, run)
	if err != nil || two[0].(*fake).Level != 0 || two[1].(*fake).Level != 4 {
		t.Errorf("two monitors: %+v, %v", two, err)
	}
	none, err := Open(nil, nil, run)
	if err != nil || len(none) != 1 {
		t.Fatalf("no monitor named: %v, %v", none, err)
	}
	for _, m := range slices.Concat(one, two, none) {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(run.Dir, rundir.MetricsFile)); err != nil {
		t.Errorf("a run without a named monitor: %v", err)
	}
}

// A run may show the console beside any monitor, or nothing.
func TestTheConsoleIsAddedAndTakenAway(t *testing.T) {
	for _, c := range []struct {
		names []string
		args  map[string]any
		run   Run
		want  string
		level int // of the last one
	}{
		{[]string{"test_a"}, map[string]any{"level": 3}, Run{}, "*monitor.fake *monitor.jsonl", 3},
		{[]string{"test_a"}, map[string]any{"level": 3}, Run{Shows: true}, "*monitor.console *monitor.fake *monitor.jsonl", 3},
		{[]string{"console"}, nil, Run{Shows: true}, "*monitor.console *monitor.jsonl", 0},
		{[]string{"test_a", "console"}, map[string]any{"test_a": map[string]any{"level": 3}}, Run{Shows: true, Quiet: true},
			"*monitor.fake *monitor.jsonl", 3},
		{[]string{"console", "test_a", "test_b"}, map[string]any{"test_b": map[string]any{"level": 3}}, Run{Quiet: true},
			"*monitor.fake *monitor.fake *monitor.jsonl", 3},
		{[]string{"console"}, nil, Run{Quiet: true}, "*monitor.jsonl", 0},
		{[]string{"test_a"}, map[string]any{"level": 3}, Run{Quiet: true}, "*monitor.fake *monitor.jsonl", 3},
	} {
		c.run.Dir = t.TempDir()
		mons, err := Open(c.names, c.args, c.run)
		var got []string
		level := 0
		for _, m := range mons {
			got = append(got, fmt.Sprintf("%T", m))
			if f, ok := m.(*fake); ok {
				level = f.Level
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if err != nil || strings.Join(got, " ") != c.want || level != c.level {
			t.Errorf("%v with %+v: %v, level %d, %v", c.names, c.run, got, level, err)
		}
	}
}

func TestOpenChecksArguments(t *testing.T) {
	for _, c := range []struct {
		names []string
		args  map[string]any
		want  string
	}{
		{[]string{"test_c"}, nil, `unknown monitor "test_c"`},
		{[]string{"test_a"}, map[string]any{"lvel": 1}, `did you mean "level"`},
		{[]string{"test_a", "test_b"}, map[string]any{"level": 1}, "one section for each: test_a, test_b"},
		{[]string{"test_a", "test_b"}, map[string]any{"test_a": 1}, "monitor_args.test_a: want a section"},
	} {
		if _, err := Open(c.names, c.args, Run{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%v, %v): %v, want %q", c.names, c.args, err, c.want)
		}
	}
	if _, err := Open(nil, nil, Run{Dir: "monitor.go/x"}); err == nil {
		t.Error("a run opened in a directory that cannot be")
	}
}

// A full disk may leave half a description. The run begins with a new ID, and sync refuses.
func TestOpenReplacesADamagedDescription(t *testing.T) {
	for _, text := range []string{`{"id": "abc", "na`, `{"id": "abc", "began": 7}`, ""} {
		dir := t.TempDir()
		path := filepath.Join(dir, rundir.AboutFile)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Sync(t.Context(), dir, "trackio", nil, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: sync: %v", text, err)
		}
		var said []string
		monitors, err := Open([]string{"jsonl"}, nil, Run{Dir: dir, Name: "n", Say: func(line string) { said = append(said, line) }})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		end(t, monitors, Finished)
		if len(said) != 1 || !strings.Contains(said[0], path) || !strings.Contains(said[0], "the run gets a new ID") {
			t.Errorf("%q: said %q", text, said)
		}
		if a, err := rundir.ReadAbout(dir); err != nil || len(a.ID) != 12 || a.Began.IsZero() {
			t.Errorf("%q: %+v, %v", text, a, err)
		}
	}
}

// A run's description tells how each of its parts ended, and forgets it when a process begins anew.
func TestPartsOfARunEnd(t *testing.T) {
	dir := t.TempDir()
	if err := KeepEnd(dir, []string{"trainer"}, Failed, "x"); err != nil {
		t.Error(err)
	}
	begin := func(part string, trains bool, total int64) {
		t.Helper()
		monitors, err := Open(nil, nil, Run{Dir: dir, Name: "n", Parts: []string{part}, Trains: trains, TotalSteps: total})
		if err != nil {
			t.Fatal(err)
		}
		end(t, monitors, "")
	}
	want := func(what string, total int64, parts map[string]rundir.Part) {
		t.Helper()
		a, err := rundir.ReadAbout(dir)
		if err != nil || a.TotalSteps != total || len(a.Parts) != len(parts) {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
		for name, part := range a.Parts {
			if part.Time.IsZero() {
				t.Errorf("%s: %s has no time", what, name)
			}
			if n := len(part.Starts); n == 0 || !slices.IsSortedFunc(part.Starts, time.Time.Compare) {
				t.Errorf("%s: %s began at %v", what, name, part.Starts)
			}
			if part.Time, part.Starts = (time.Time{}), nil; !reflect.DeepEqual(part, parts[name]) {
				t.Errorf("%s: %s %+v, want %+v", what, name, part, parts[name])
			}
		}
	}
	begin("trainer", true, 9)
	begin("explorer", false, 99)
	want("both begin", 9, map[string]rundir.Part{"trainer": {}, "explorer": {}})
	if err := errors.Join(KeepEnd(dir, []string{"trainer"}, Failed, "no room"), KeepEnd(dir, []string{"explorer"}, Stopped, ""),
		KeepWait(dir, "explorer", "trainer"), KeepWait(dir, "nobody", "trainer")); err != nil {
		t.Error(err)
	}
	want("both end", 9, map[string]rundir.Part{"trainer": {Status: Failed, Error: "no room"}, "explorer": {Status: Stopped}})
	begin("trainer", true, 12)
	if err := KeepWait(dir, "trainer", "explorer"); err != nil {
		t.Error(err)
	}
	want("the trainer begins anew", 12, map[string]rundir.Part{"trainer": {For: "explorer"}, "explorer": {Status: Stopped}})
	for range 2 * maxStarts {
		begin("trainer", true, 12)
	}
	if a, err := rundir.ReadAbout(dir); err != nil || len(a.Parts["trainer"].Starts) != maxStarts || len(a.Parts["explorer"].Starts) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}
