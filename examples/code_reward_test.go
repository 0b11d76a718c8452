package examples

import (
	"fmt"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

const codeReward = "code_reward/code.yaml"

// A policy learns to write programs that pass tests.
func TestCodeRewardLearns(t *testing.T) {
	trinitytest.Long(t, "trains for a minute", "examples/code_reward")
	passed := curve(runExample(t, codeReward), "eval/held_out/tests/mean@4")
	if first, last := passed[0], last(passed); last < 0.75 || last < first+0.4 {
		t.Errorf("programs that pass rose from %.3f to %.3f, want at least 0.75 and 0.4 more", first, last)
	}
	publishes(t, "examples/code_reward", map[string][]float64{"seed 0": passed})
}

// The policy learns with three seeds, and not in the controls. With -update the test writes what was
// measured into the documents.
func TestCodeRewardResults(t *testing.T) {
	trinitytest.TooLong(t, "trains for many minutes")
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name string, overrides ...string) (first, end float64) {
		passed := curve(runExampleIn(t, t.TempDir(), codeReward, overrides...), "eval/held_out/tests/mean@4")
		values[name] = passed
		return passed[0], last(passed)
	}
	for seed := range 3 {
		if first, end := run(fmt.Sprint("seed ", seed), fmt.Sprint("seed=", seed)); end < 0.75 || end < first+0.4 {
			t.Errorf("seed %d: programs that pass rose from %.3f to %.3f, want at least 0.75 and 0.4 more", seed, first, end)
		}
	}
	for name, override := range quickstartControls {
		if first, end := run(name, override); end > first+0.1 {
			t.Errorf("%s: programs that pass rose from %.3f to %.3f, and there was nothing to learn from", name, first, end)
		}
	}
	hold(t, "examples/code_reward", results{Values: values})
}

func codeTable(r results) map[string]string {
	table := measuredAt(r.Commit) + "| run | held-out programs that pass |\n|---|---|\n"
	for _, name := range []string{"seed 0", "seed 1", "seed 2", "learning rate 0", "shuffled rewards"} {
		table += fmt.Sprintf("| %s | %s |\n", name, change(r.Values[name]))
	}
	return map[string]string{"programs": table}
}
