package examples

import (
	"fmt"
	"testing"
)

// SmolLM2 learns to call a tool within 8 steps. It does not with a learning rate of 0.
func TestCalculatorOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name string, overrides ...string) []float64 {
		records := runExampleIn(t, t.TempDir(), "calculator_smollm2/calculator.yaml", append(overrides, "model.model_path="+model)...)
		values[name+" right"] = curve(records, "eval/held_out/accuracy/mean@2")
		values[name+" turns"] = curve(records, "eval/held_out/turns/mean@2")
		values[name+" steps"] = curve(records, "rollout/accuracy/mean")
		return values[name+" right"]
	}
	for seed := range 3 {
		name := fmt.Sprint("seed ", seed)
		if right := run(name, fmt.Sprint("seed=", seed)); right[0] > 0.75 || last(right) < 0.95 {
			t.Errorf("%s: right products rose from %.3f to %.3f, want at least 0.95", name, right[0], last(right))
		}
	}
	const still = "learning rate 0"
	if right := run(still, "algorithm.optimizer.lr=0"); last(right) > right[0]+0.1 {
		t.Errorf("%s: right products rose from %.3f to %.3f", still, right[0], last(right))
	}
	hold(t, "examples/calculator_smollm2", results{Values: values})
}

func calculatorTable(r results) map[string]string {
	table := measuredAt(r.Commit) + head("run", "right", "turns")
	for _, name := range []string{"seed 0", "seed 1", "seed 2", "learning rate 0"} {
		table += fmt.Sprintf("| %s | %s | %s |\n", name, change(r.Values[name+" right"]), change(r.Values[name+" turns"]))
	}
	return map[string]string{"measured": table}
}
