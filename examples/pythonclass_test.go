package examples

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// corridorClass is the corridor of own_environment in Python.
const corridorClass = `
class Corridor:
    def reset(self, seed):
        self.exit, self.taken = 4 * (seed % 2) - 2, 0
        return self.says()

    def step(self, text):
        self.exit -= -1 if text[:1].isalpha() else 1
        self.taken += 1
        return self.says(), float(self.exit == 0), self.exit == 0 or self.taken == 4

    def says(self):
        return f"{abs(self.exit)} to the {'left' if self.exit < 0 else 'right'}"
`

// A policy learns an environment of a Python file as it learns that of a Go program.
func TestPythonClassLearns(t *testing.T) {
	trinitytest.Long(t, "trains a model", "environment", "internal/bridge", "workflow", "engine/cpu")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	file := filepath.Join(t.TempDir(), "env.py")
	if err := os.WriteFile(file, []byte(corridorClass), 0o600); err != nil {
		t.Fatal(err)
	}
	rewards := curve(runExample(t, "own_environment/own_environment.yaml",
		"buffer.explorer_input.taskset.workflow_args={environment: python_class, environment_args: {file: "+file+"}, max_concurrent: 8}",
	), "rollout/reward/mean")
	if first, last := mean(rewards[:5]), mean(rewards[35:]); first > 0.3 || last < 0.9 {
		t.Errorf("the reward went from %.2f to %.2f, want at most 0.3 to at least 0.9", first, last)
	}
}

// A reward class of a plugin directory teaches what the Go program of own_reward does, bit for bit.
func TestPluginDirLearns(t *testing.T) {
	trinitytest.Long(t, "trains a model", "reward", "internal/bridge", "python", "engine/cpu")
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	rewards := pluginDirRewards(t)
	if last := mean(rewards[35:]); len(rewards) != 40 || last < 0.9 {
		t.Errorf("the reward of %d steps ends at %.2f, want 0.9 or more", len(rewards), last)
	}
}

// The class of a plugin directory runs in a Python with trinity-rft, whose names it does not get.
func TestCompatPluginDir(t *testing.T) {
	python := trinitytest.CompatPython(t)
	if rewards := pluginDirRewards(t, "python.interpreter="+python, "buffer.total_steps=4"); len(rewards) != 4 {
		t.Errorf("%d steps, want 4", len(rewards))
	}
}

// pluginDirRewards runs the example and returns the rewards of its steps, which are those of the program in Go.
func pluginDirRewards(t *testing.T, overrides ...string) []float64 {
	t.Helper()
	rewards := curve(runExample(t, "plugin_dir/run.yaml", overrides...), "rollout/reward/mean")
	want := readResults(t, "examples/own_reward").Recipe.Curve
	for i, r := range rewards {
		if math.Abs(r-want[i]) > 5e-5 {
			t.Fatalf("step %d has the reward %v, in Go %v", i+1, r, want[i])
		}
	}
	return rewards
}

// What trinity init writes for env.py teaches SmolLM2 in a few minutes.
func TestInitOfEnvironmentTeachesSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	dir := t.TempDir()
	program := filepath.Join(dir, "trinity")
	if out, err := exec.Command("go", "build", "-o", program, "./cmd/trinity").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{
		{"init", "env.py", "--model", model}, {"run", "--config", "env.yaml", "--quiet", "buffer.total_steps=10"},
	} {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	rewards := curve(records(t, filepath.Join(dir, "checkpoints/trinity/env/monitor/metrics.jsonl")), "rollout/reward/mean")
	t.Logf("rewards %.2f", rewards)
	if first, last := mean(rewards[:2]), mean(rewards[len(rewards)-2:]); first > 0.4 || last < 0.7 {
		t.Errorf("the reward went from %.2f to %.2f, want at most 0.4 to at least 0.7", first, last)
	}
}
