package examples

import (
	"fmt"
	"os/exec"
	"testing"
)

// SmolLM2 learns to use a tool within 8 steps, in a program that speaks the OpenAI API. It does not
// with a learning rate of 0.
func TestAgentOfSmolLM2(t *testing.T) {
	model := smolLM2(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3, in which the agent is written")
	}
	t.Chdir("..")
	values := map[string][]float64{}
	run := func(name string, overrides ...string) []float64 {
		records := runExampleIn(t, t.TempDir(), "exec_openai/exec.yaml", append(overrides, "model.model_path="+model)...)
		values[name+" right"] = curve(records, "eval/held_out/accuracy/mean@2")
		values[name+" called"] = curve(records, "eval/held_out/called/mean@2")
		values[name+" steps"] = curve(records, "rollout/accuracy/mean")
		return values[name+" right"]
	}
	for seed := range 3 {
		if right := run(fmt.Sprint("seed ", seed), fmt.Sprint("seed=", seed)); right[0] > 0.7 || last(right) < 0.9 {
			t.Errorf("seed %d: right products rose from %.3f to %.3f, want at least 0.9", seed, right[0], last(right))
		}
	}
	const still = "learning rate 0"
	if right := run(still, "algorithm.optimizer.lr=0"); last(right) > right[0]+0.1 {
		t.Errorf("%s: right products rose from %.3f to %.3f", still, right[0], last(right))
	}
	hold(t, "examples/exec_openai", results{Values: values})
}

func agentTable(r results) map[string]string {
	table := measuredAt(r.Commit) + head("run", "right", "with a call")
	for _, name := range []string{"seed 0", "seed 1", "seed 2", "learning rate 0"} {
		table += fmt.Sprintf("| %s | %s | %s |\n", name, change(r.Values[name+" right"]), change(r.Values[name+" called"]))
	}
	return map[string]string{"measured": table}
}
