package rundir

import (
	"cmp"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

// writeMetrics makes a file of metrics.
func writeMetrics(t *testing.T, dir, path string, lines ...string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(path), MetricsFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}

const (
	explored = `{"step":9,"role":"explorer","time":"2026-01-01T00:00:09Z","metrics":{}}`
	early    = `{"step":1,"role":"trainer","time":"2026-01-01T00:00:01Z","metrics":{}}`
	late     = `{"step":1,"role":"trainer","time":"2026-01-01T00:00:05Z","metrics":{}}`
)

// Stages are ordered by the times in their records. The times of files differ, as in a copy of a run.
func TestStagesByTheirRecords(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string][]string // by folder
		want  string              // stages, the newest first
	}{
		"one run":                {map[string][]string{"monitor": {early, ""}}, "."},
		"the second has trained": {map[string][]string{"rl/monitor": {late, ""}, "warmup/monitor": {early, ""}}, "rl warmup"},
		"the second has not trained yet": {map[string][]string{"rl/monitor": {explored, ""}, "warmup/monitor": {early, late, ""}},
			"rl warmup"},
		"the first explored last": {map[string][]string{"rl/monitor": {late, ""}, "warmup/monitor": {early, explored, ""}}, "rl warmup"},
		"no trainer": {map[string][]string{"a/monitor": {explored, ""},
			"b/monitor": {`{"step":1,"role":"explorer","time":"2026-01-02T00:00:00Z"}`, ""}}, "b a"},
		"several explorers": {map[string][]string{"a/monitor/x": {explored, ""}, "a/monitor/y": {explored, ""},
			"b/monitor": {late, ""}}, "a b"},
		"half a line at the end": {map[string][]string{"a/monitor": {late, `{"step":2,"ro`}, "b/monitor": {early, ""}}, "a b"},
		"a long file": {map[string][]string{"a/monitor": append([]string{late}, slices.Repeat([]string{explored}, 3000)...),
			"b/monitor": {early, ""}}, "a b"},
		"a checkpoint has none": {map[string][]string{"monitor": {early, ""}, "global_step_1/monitor": {late, ""}}, "."},
		"no run":                {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for folder, lines := range c.files {
				writeMetrics(t, dir, folder, lines...)
			}
			if warmup := filepath.Join(dir, "warmup", Monitor, MetricsFile); c.files["warmup/monitor"] != nil {
				if now := time.Now(); os.Chtimes(warmup, now, now.Add(time.Hour)) != nil {
					t.Fatal("the time of the file cannot be set")
				}
			}
			run, err := Open(dir)
			var got []string
			for _, s := range run.Stages {
				got = append(got, cmp.Or(s.Name, "."))
				lines := strings.Join(c.files[path.Join(s.Name, Monitor)], "")
				if trains := strings.Contains(lines, trinity.RoleTrainer); s.Trained.IsZero() == trains {
					t.Errorf("stage %q trains: %t, at %v", s.Name, trains, s.Trained)
				}
			}
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); err == nil || !strings.HasPrefix(err.Error(), "no run in ") {
		t.Errorf("of no directory: %v", err)
	}
}

// A record that is longer than what Open reads at once, and half written then, counts once it is whole.
func TestALongRecordIsWrittenWhileARunIsOpened(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", Monitor, MetricsFile)
	long := `{"step":2,"role":"trainer","time":"2026-01-01T00:00:12Z","metrics":{},"samples":"` + strings.Repeat("x", 100_000)
	writeMetrics(t, dir, "a/monitor", early, long)
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString("\"}\n")
	}
	if err != nil || f.Close() != nil || run.Update() != nil {
		t.Fatal(err)
	}
	if s, err := run.Newest(); err != nil || s.Trained.UTC().Format("05") != "12" {
		t.Errorf("%+v, %v, want a stage trained at second 12", s, err)
	}
}

// Who looks again reads what has come: lines behind those that it knows, once they are whole, and all of a file that
// another one has replaced.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", Monitor, MetricsFile)
	writeMetrics(t, dir, "a/monitor", early, "")
	writeMetrics(t, dir, "b/monitor", explored, "")
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := func(what, newest, trained string) {
		t.Helper()
		err := run.Update()
		s, noStage := run.Newest()
		if err != nil || noStage != nil || s.Name != newest || s.Trained.UTC().Format("05") != trained {
			t.Errorf("%s: %+v, %v, %v; want %s, trained at second %s", what, s, err, noStage, newest, trained)
		}
	}
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	want("explorer newer", "b", "00")
	noon := `{"step":2,"role":"trainer","time":"2026-01-01T00:00:12Z","metrics":{}}`
	add(noon[:30])
	want("half a line", "b", "00")
	add(noon[30:] + "\n")
	want("the whole line", "a", "12")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	writeMetrics(t, dir, "a/monitor", late, "")
	want("another file", "b", "00")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := run.Update(); err == nil || len(run.Stages) != 2 {
		t.Errorf("a run that is gone: %v, %d stages", err, len(run.Stages))
	}
}

func TestUnion(t *testing.T) {
	for name, c := range map[string]struct {
		add  []Stretch
		want Union
	}{
		"in order":           {[]Stretch{{1, 2}, {3, 4}}, Union{{1, 2}, {3, 4}}},
		"touching":           {[]Stretch{{1, 2}, {2, 4}}, Union{{1, 4}}},
		"within":             {[]Stretch{{1, 9}, {2, 4}}, Union{{1, 9}}},
		"around":             {[]Stretch{{2, 4}, {6, 7}, {1, 9}}, Union{{1, 9}}},
		"between":            {[]Stretch{{1, 2}, {10, 11}, {5, 6}}, Union{{1, 2}, {5, 6}, {10, 11}}},
		"before":             {[]Stretch{{5, 6}, {1, 2}}, Union{{1, 2}, {5, 6}}},
		"joins two of three": {[]Stretch{{1, 2}, {4, 5}, {8, 9}, {2, 4}}, Union{{1, 5}, {8, 9}}},
		"no time":            {[]Stretch{{3, 3}, {3, 3}}, Union{{3, 3}}},
	} {
		var u Union
		for _, s := range c.add {
			u.Add(s)
		}
		if !slices.Equal(u, c.want) {
			t.Errorf("%s: %v, want %v", name, u, c.want)
		}
	}
	u := Union{{1, 3}, {5, 9}}
	if got := u.Within(2, 6); got != 2 {
		t.Errorf("within: %d", got)
	}
	if got := u.Within(20, 30); got != 0 {
		t.Errorf("outside: %d", got)
	}
}

// Points of a step, which several explorers give, are their mean, however large; those that the reader knows are left out.
func TestByStep(t *testing.T) {
	got := ByStep([]Point{{2, 5, 1, true}, {1, 1, 1.5e308, false}, {2, 7, 3, false}, {1, 2, 1.5e308, false}, {3, 1, 1, true}, {3, 2, 1, true}})
	want := []Point{{1, 2, 1.5e308, false}, {2, 7, 2, false}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Records have the metrics that are wanted, and their own times.
func TestRecords(t *testing.T) {
	dir := t.TempDir()
	writeMetrics(t, dir, "monitor", `{"step":1,"role":"trainer","time":"2026-01-01T00:00:01.5Z","metrics":{"a":1.5,"b":"NaN"}}`,
		`{"step":2,"role":"explorer","time":"","metrics":{"c":"-Infinity"},"samples":[]}`, "no record", `{"step":3,"role`)
	table, err := ReadTable(filepath.Join(dir, Monitor), func(name string) bool { return name != "b" })
	if err == nil || !strings.Contains(err.Error(), MetricsFile+":3: not a record") {
		t.Errorf("damage: %v", err)
	}
	got := slices.Collect(table.Records())
	want := []trinity.Record{
		{Step: 1, Role: "trainer", Time: time.Date(2026, 1, 1, 0, 0, 1, 5e8, time.UTC), Metrics: trinity.Metrics{"a": 1.5}},
		{Step: 2, Role: "explorer", Metrics: trinity.Metrics{"c": math.Inf(-1)}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if table, err := ReadTable(filepath.Join(dir, "none"), nil); err != nil || len(table.Steps) != 0 {
		t.Errorf("without a file: %d records, %v", len(table.Steps), err)
	}
}
