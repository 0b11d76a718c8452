package rundir

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write makes a file of metrics.
func write(t *testing.T, dir, path string, lines ...string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(path), Metrics)
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
				write(t, dir, folder, lines...)
			}
			if warmup := filepath.Join(dir, "warmup", Monitor, Metrics); c.files["warmup/monitor"] != nil {
				if now := time.Now(); os.Chtimes(warmup, now, now.Add(time.Hour)) != nil {
					t.Fatal("the time of the file cannot be set")
				}
			}
			stages, err := Stages(dir)
			var got []string
			for _, s := range stages {
				path, _ := filepath.Rel(dir, s.Dir)
				got = append(got, path)
			}
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	if _, err := Stages(filepath.Join(t.TempDir(), "none")); err == nil || !strings.HasPrefix(err.Error(), "no run in ") {
		t.Errorf("of no directory: %v", err)
	}
}
