package examples

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

const quickstart = "quickstart/quickstart.yaml"

// quickstartControls are settings with which there is nothing to learn from.
var quickstartControls = map[string]string{
	"learning rate 0":  "stages.1.algorithm.optimizer.lr=0",
	"shuffled rewards": "stages.1.data_processor.experience_pipeline.operators=[{name: test_shuffle_rewards}]",
}

// The quickstart learns to add, as its page says.
func TestQuickstartLearns(t *testing.T) {
	trinitytest.Long(t, "trains for a minute", trained...)
	records := runExample(t, quickstart)
	first, last := ends(t, records)
	if last < 0.70 || last < first+0.30 {
		t.Errorf("accuracy rose from %.3f to %.3f, want at least 0.70 and 0.30 more", first, last)
	}
	publishes(t, "examples/quickstart", map[string][]float64{
		"seed 0 sampled": curve(records, "eval/new_sums/accuracy/mean@1"),
		"seed 0 greedy":  curve(records, "eval/new_sums_greedy/accuracy/mean@1"),
	})
}

// The quickstart learns with three seeds, and not in the controls. With -update the test writes what
// was measured into the documents.
func TestQuickstartResults(t *testing.T) {
	trinitytest.TooLong(t, "trains for many minutes")
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name string, overrides ...string) (first, last float64) {
		records := runExampleIn(t, t.TempDir(), quickstart, overrides...)
		values[name+" tens"] = tens(curve(records, "rollout/accuracy/mean"))
		values[name+" sampled"] = curve(records, "eval/new_sums/accuracy/mean@1")
		values[name+" greedy"] = curve(records, "eval/new_sums_greedy/accuracy/mean@1")
		return ends(t, records)
	}
	for seed := range 3 {
		if first, last := run(fmt.Sprint("seed ", seed), fmt.Sprint("seed=", seed)); last < 0.70 || last < first+0.30 {
			t.Errorf("seed %d: accuracy rose from %.3f to %.3f, want at least 0.70 and 0.30 more", seed, first, last)
		}
	}
	for name, override := range quickstartControls {
		if first, last := run(name, override); last > first+0.1 {
			t.Errorf("%s: accuracy rose from %.3f to %.3f, and there was nothing to learn from", name, first, last)
		}
	}
	if _, last := run("int8", "stages.1.explorer.rollout_model.quantization=int8",
		"stages.1.algorithm.rollout_correction={bypass_mode: false, rollout_is: token, rollout_is_threshold: 2.0}"); last < 0.70 {
		t.Errorf("with 8-bit weights accuracy rose to %.3f, want at least 0.70", last)
	}
	own := recordsOfOwnAlgorithm(t)
	values["own algorithm sampled"] = curve(own, "eval/new_sums/accuracy/mean@1")
	values["own algorithm greedy"] = curve(own, "eval/new_sums_greedy/accuracy/mean@1")
	hold(t, "examples/quickstart", results{Values: values})
}

// recordsOfOwnAlgorithm runs the quickstart as docs/develop/algorithm.md does and returns the records
// of its second stage.
func recordsOfOwnAlgorithm(t *testing.T) []trinity.Record {
	t.Helper()
	root := t.TempDir()
	out, err := exec.Command("go", "run", "./examples/own_algorithm", "run", "--config", "examples/quickstart/quickstart.yaml", "--quiet",
		"name=own", "stages.1.algorithm.algorithm_type=my_cispo", "checkpoint_root_dir="+root).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return records(t, filepath.Join(root, "trinity-examples", "own", "rl", "monitor", "metrics.jsonl"))
}

// ownAlgorithmTable compares the algorithm of examples/own_algorithm with GRPO.
func ownAlgorithmTable(r results) map[string]string {
	return map[string]string{"accuracy": measuredAt(r.Commit) +
		"| | CISPO, before → after the stage | GRPO as in the file |\n|---|---|---|\n" +
		"| temperature 1 | " + change(r.Values["own algorithm sampled"]) + " | " + change(r.Values["seed 0 sampled"]) + " |\n" +
		"| greedy | " + change(r.Values["own algorithm greedy"]) + " | " + change(r.Values["seed 0 greedy"]) + " |\n"}
}

func quickstartTables(r results) map[string]string {
	var accuracy, heldOut strings.Builder
	accuracy.WriteString(measuredAt(r.Commit) + "| run | 1–10 |")
	for ten := 20; ten <= 120; ten += 10 {
		fmt.Fprintf(&accuracy, " –%d |", ten)
	}
	fmt.Fprintf(&accuracy, "\n|%s\n", strings.Repeat("---|", 13))
	heldOut.WriteString("\n| seed | temperature 1 | greedy |\n|---|---|---|\n")
	row := func(name string) {
		fmt.Fprintf(&accuracy, "| %s | %s |\n", name, cells(r.Values[name+" tens"]))
	}
	for seed := range 3 {
		name := fmt.Sprint("seed ", seed)
		row(name)
		fmt.Fprintf(&heldOut, "| %d | %s | %s |\n", seed, change(r.Values[name+" sampled"]), change(r.Values[name+" greedy"]))
	}
	row("learning rate 0")
	row("shuffled rewards")
	return map[string]string{"accuracy": accuracy.String(), "held out": heldOut.String()}
}

func quantizedTable(r results) map[string]string {
	return map[string]string{"quickstart": measuredAt(r.Commit) + "| weights | accuracy |\n|---|---|\n" +
		"| int8 | " + shares(r.Values["int8 tens"]) + " |\n| float32 | " + shares(r.Values["seed 0 tens"]) + " |\n"}
}

func quickstartRow(r results) map[string]string {
	return map[string]string{"quickstart": change(r.Values["seed 0 sampled"]) + ", " + change(r.Values["seed 0 greedy"])}
}

// change writes the first and the last of some shares.
func change(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	return share(v[0]) + " → " + share(v[len(v)-1])
}
