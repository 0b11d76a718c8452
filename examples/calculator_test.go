package examples

import (
	"fmt"
	"testing"
)

// SmolLM2 learns to call a tool within 8 steps. It does not with a learning rate of 0.
func TestCalculatorOfSmolLM2(t *testing.T) {
	learnsToCall(t, "calculator_smollm2/calculator.yaml", "examples/calculator_smollm2", 0.75, map[string]string{
		"learning rate 0": "algorithm.optimizer.lr=0",
	})
}

// SmolLM2 learns to write its calls as JSON. It does not in the controls.
func TestHermesCallsOfSmolLM2(t *testing.T) {
	learnsToCall(t, "calculator_smollm2/hermes.yaml", "examples/calculator_smollm2/hermes", 0.3, map[string]string{
		"learning rate 0":  "algorithm.optimizer.lr=0",
		"shuffled rewards": "data_processor.experience_pipeline.operators=[{name: test_shuffle_rewards}]",
	})
}

// learnsToCall runs an example with three seeds, from at most atFirst right products to at least
// 0.95, and its controls, which do not rise.
func learnsToCall(t *testing.T, config, dir string, atFirst float64, controls map[string]string) {
	t.Helper()
	model := smolLM2(t)
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name string, overrides ...string) []float64 {
		records := runExampleIn(t, t.TempDir(), config, append(overrides, "model.model_path="+model)...)
		values[name+" right"] = curve(records, "eval/held_out/accuracy/mean@2")
		values[name+" turns"] = curve(records, "eval/held_out/turns/mean@2")
		values[name+" steps"] = curve(records, "rollout/accuracy/mean")
		return values[name+" right"]
	}
	for seed := range 3 {
		name := fmt.Sprint("seed ", seed)
		if right := run(name, fmt.Sprint("seed=", seed)); right[0] > atFirst || last(right) < 0.95 {
			t.Errorf("%s: right products rose from %.3f to %.3f, want at least 0.95", name, right[0], last(right))
		}
	}
	for name, override := range controls {
		if right := run(name, override); last(right) > right[0]+0.1 {
			t.Errorf("%s: right products rose from %.3f to %.3f", name, right[0], last(right))
		}
	}
	hold(t, dir, results{Values: values})
}

func calculatorTable(r results) map[string]string { return callsTable("measured", r) }

func hermesTable(r results) map[string]string { return callsTable("hermes", r) }

func callsTable(mark string, r results) map[string]string {
	table := measuredAt(r.Commit) + head("run", "right", "turns")
	for _, name := range []string{"seed 0", "seed 1", "seed 2", "learning rate 0", "shuffled rewards"} {
		if right := r.Values[name+" right"]; right != nil {
			table += fmt.Sprintf("| %s | %s | %s |\n", name, change(right), change(r.Values[name+" turns"]))
		}
	}
	return map[string]string{mark: table}
}
