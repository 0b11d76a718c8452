package run_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kernels matches the name of the kernel set in a checkpoint. A process chooses the fastest set
// when it starts, and all sets give the same bits.
var kernels = regexp.MustCompile(`"kernels": "\w+"`)

// result holds the files and metrics of a run, without dates, durations and earlier checkpoints,
// which differ from run to run.
type result struct {
	files  map[string]string  // of the newest checkpoint of each stage, by path
	curves map[string][]entry // by metrics file and role
}

type entry struct {
	Step    int64          `json:"step"`
	Role    string         `json:"role"`
	Metrics map[string]any `json:"metrics"`
}

// results reads everything below dir.
func results(t *testing.T, dir string) result {
	t.Helper()
	r := newest(t, dir)
	below(t, dir, "metrics.jsonl", func(path string) {
		rel, _ := filepath.Rel(dir, filepath.Dir(path))
		for _, e := range metrics(t, path) {
			r.curves[rel+" "+e.Role] = append(r.curves[rel+" "+e.Role], e)
		}
	})
	return r
}

// newest reads the newest checkpoints below dir without metrics.
func newest(t *testing.T, dir string) result {
	t.Helper()
	r := result{files: map[string]string{}, curves: map[string][]entry{}}
	below(t, dir, "latest_checkpointed_iteration.txt", func(path string) {
		r.checkpoint(t, dir, filepath.Join(filepath.Dir(path), "global_step_"+read(t, path)))
	})
	return r
}

// below visits the files of a name below dir.
func below(t *testing.T, dir, name string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			visit(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (r result) checkpoint(t *testing.T, root, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		// run.json says whether a due evaluation came before the checkpoint; README.md quotes the configuration.
		if err != nil || d.IsDir() || slices.Contains([]string{"run.json", "SHA256SUMS", "README.md"}, d.Name()) {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		text := kernels.ReplaceAllLiteralString(read(t, path), "")
		r.files[rel] = strings.ReplaceAll(text, root, "DIR") // an adapter names its base model
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// metrics reads a metrics file without its durations and speeds.
func metrics(t *testing.T, path string) []entry {
	t.Helper()
	var out []entry
	for line := range strings.Lines(read(t, path)) {
		var e entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v in %q", path, err, line)
		}
		maps.DeleteFunc(e.Metrics, func(name string, _ any) bool {
			return strings.HasPrefix(name, "perf/") || strings.Contains("/"+name, "/time/") || strings.HasSuffix(name, "tokens_per_second") ||
				strings.Contains(name, "prefill_reused_ratio") || strings.Contains(name, "draft_accept_rate")
		})
		out = append(out, e)
	}
	return out
}

// sameAs reports every difference.
func (r result) sameAs(t *testing.T, want result) {
	t.Helper()
	if len(want.files) == 0 || len(want.curves) == 0 {
		t.Fatal("the run to compare with left no checkpoint or no metrics")
	}
	for _, name := range keys(r.files, want.files) {
		if r.files[name] != want.files[name] {
			t.Errorf("%s differs (%d bytes, want %d)", name, len(r.files[name]), len(want.files[name]))
		}
	}
	for _, name := range keys(r.curves, want.curves) {
		got, want := lines(r.curves[name]), lines(want.curves[name])
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Errorf("%s: record %d is\n%s\nwant\n%s", name, i, at(got, i), at(want, i))
				break
			}
		}
	}
}

func lines(entries []entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, fmt.Sprintf("step %d %v", e.Step, e.Metrics)) // maps print in order of keys
	}
	return out
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "missing"
}

func keys[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// curve returns a metric over the steps of a role, from a run's directory.
func curve(t *testing.T, dir, role, name string) []float64 {
	t.Helper()
	var out []float64
	for _, e := range metrics(t, filepath.Join(dir, "monitor", "metrics.jsonl")) {
		if v, ok := e.Metrics[name].(float64); ok && e.Role == role {
			out = append(out, v)
		}
	}
	return out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func exists(pattern string) bool {
	found, err := filepath.Glob(pattern)
	return err == nil && len(found) > 0
}

// copyOf copies the model and data of a project, for a run of its own.
func (p project) copyOf(t *testing.T) project {
	t.Helper()
	q := project{dir: t.TempDir()}
	if err := os.CopyFS(q.dir, os.DirFS(p.dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(q.dir, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	q.config = filepath.Join(q.dir, "config.yaml")
	write(t, q.config, strings.ReplaceAll(read(t, p.config), p.dir, q.dir))
	return q
}
