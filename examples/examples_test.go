package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/registry"
	_ "github.com/trinity-go/trinity/standard"
	"github.com/trinity-go/trinity/trinitytest"
)

func init() {
	registry.Operators.Register("test_shuffle_rewards", "Gives every experience of a step the reward of another one.",
		func() trinity.Operator { return trinitytest.ShuffleRewards{} })
}

// trained lists the rooms that what a model learns depends on.
var trained = []string{"examples", "algorithm", "engine/cpu", "internal/explorer", "internal/trainer", "workflow", "reward", "internal/run"}

// smolLM2 is the path of SmolLM2-135M-Instruct as a GGUF file.
func smolLM2(t *testing.T) string {
	t.Helper()
	trinitytest.TooLong(t, "trains for many minutes")
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("needs SmolLM2-135M-Instruct: set TRINITY_SMOLLM2_GGUF to the GGUF file")
	}
	return path
}

// runExample runs an example to its end, in a directory of its own, and returns its metrics. Paths in examples are relative to the
// repository's root.
func runExample(t *testing.T, path string, overrides ...string) []trinity.Record {
	t.Helper()
	t.Chdir("..")
	return runExampleIn(t, t.TempDir(), path, overrides...)
}

// runExampleIn runs an example in the repository's root and writes below dir. It returns the metrics of all stages.
func runExampleIn(t *testing.T, dir, path string, overrides ...string) []trinity.Record {
	t.Helper()
	cfg, err := config.Load(filepath.Join("examples", path), config.Options{Overrides: append(overrides, "checkpoint_root_dir="+dir, "monitor.monitor_type=jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(s string) { t.Log(s) }}); err != nil {
		t.Fatal(err)
	}
	var all []trinity.Record
	err = filepath.WalkDir(filepath.Join(dir, cfg.Project, cfg.Name), func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Base(path) == "metrics.jsonl" {
			all = append(all, records(t, path)...)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// processesLeft gives the test a folder for temporary files. The function that it returns names the
// processes that work there: those of the programs that runs have started since, where /proc tells.
func processesLeft(t *testing.T) func() []string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return func() (names []string) {
		places, _ := filepath.Glob("/proc/[0-9]*/cwd")
		for _, place := range places {
			if at, _ := os.Readlink(place); strings.HasPrefix(at, dir+"/") { // other users' are not read
				name, _ := os.ReadFile(filepath.Join(filepath.Dir(place), "comm"))
				names = append(names, strings.TrimSpace(string(name)))
			}
		}
		return names
	}
}

// records reads a metrics file.
func records(t *testing.T, path string) []trinity.Record {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []trinity.Record
	for line := range strings.Lines(string(data)) {
		var r trinity.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v in %q", path, err, line)
		}
		out = append(out, r)
	}
	return out
}

// curve is one metric over the steps that have it.
func curve(records []trinity.Record, name string) []float64 {
	var out []float64
	for _, r := range records {
		if v, ok := r.Metrics[name]; ok {
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

// ends are the mean rollout accuracy of the first and of the last ten steps.
func ends(t *testing.T, records []trinity.Record) (first, last float64) {
	t.Helper()
	accuracy := curve(records, "rollout/accuracy/mean")
	if len(accuracy) < 20 {
		t.Fatalf("%d steps have an accuracy, want at least 20", len(accuracy))
	}
	var tens []string
	for i := 0; i+10 <= len(accuracy); i += 10 {
		tens = append(tens, fmt.Sprintf("%.3f", mean(accuracy[i:i+10])))
	}
	t.Logf("mean accuracy of ten steps: %s", strings.Join(tens, " "))
	return mean(accuracy[:10]), mean(accuracy[len(accuracy)-10:])
}
