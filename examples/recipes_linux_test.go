package examples

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// With -update the test runs the examples on the page of recipes, each in a process of its own, and writes what it
// measures to their results.json: TRINITY_HEAVY=1 go test ./examples -run Recipes/quickstart -update. Minutes are
// those of the CPU, because they differ least on a busy machine.
func TestRecipes(t *testing.T) {
	trinitytest.TooLong(t, "trains for many minutes")
	if !*update {
		t.Skip("measures with -update")
	}
	t.Chdir("..")
	for _, of := range recipes {
		t.Run(of.dir, func(t *testing.T) {
			dir, config := t.TempDir(), filepath.Join("examples", of.dir, of.file)
			binary := filepath.Join(dir, "trinity")
			source := "./cmd/trinity"
			if of.command != "" {
				source = "./examples/" + of.dir
			}
			if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			args := []string{"run", "--config", config, "checkpoint_root_dir=" + dir, "monitor.monitor_type=jsonl"}
			if text, err := os.ReadFile(config); err != nil {
				t.Fatal(err)
			} else if modelOf(string(text)) != modelOf("") {
				args = append(args, "model.model_path="+smolLM2(t))
			}
			cmd := exec.Command(binary, args...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out.Bytes())
			}
			used := cmd.ProcessState
			r := measured(t, dir)
			r.Commit, r.Config = commit(t), of.file
			r.Minutes = rounded([]float64{(used.UserTime() + used.SystemTime()).Minutes()})[0]
			r.GiB = rounded([]float64{float64(used.SysUsage().(*syscall.Rusage).Maxrss) / (1 << 20)})[0]
			all := results{Commit: r.Commit, Values: map[string][]float64{}}
			if _, err := os.Stat(filepath.Join("examples", of.dir, "results.json")); !errors.Is(err, fs.ErrNotExist) {
				all = readResults(t, "examples/"+of.dir)
			}
			all.Recipe = r
			writeResults(t, "examples/"+of.dir, all)
		})
	}
}

// measured reads the curve of the last stage below a directory, and what all stages evaluated.
func measured(t *testing.T, dir string) *recipe {
	t.Helper()
	r := &recipe{Metric: "rollout/reward/mean"}
	var files []string
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "metrics.jsonl" {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var all []trinity.Record
	newest := int64(-1)
	for _, path := range files {
		read := records(t, path)
		all = append(all, read...)
		if about, err := os.Stat(path); err != nil {
			t.Fatal(err)
		} else if c := curve(read, r.Metric); len(c) > 0 && about.ModTime().UnixNano() > newest {
			newest, r.Curve = about.ModTime().UnixNano(), rounded(c)
		}
	}
	if len(r.Curve) == 0 {
		t.Fatalf("no stage of %s has %s", dir, r.Metric)
	}
	names := map[string]bool{}
	for _, record := range all {
		for name := range record.Metrics {
			names[name] = strings.HasPrefix(name, "eval/") && (strings.Contains(name, "/accuracy/mean@") || strings.Contains(name, "/reward/mean@"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if values := curve(all, name); names[name] && r.Eval == "" && len(values) > 1 {
			r.Eval, r.Held = name, rounded([]float64{values[0], values[len(values)-1]})
		}
	}
	return r
}
