package examples

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Agents written with two SDKs give the policy the prompts of the workflow in Go, id by id, and so they
// train on the same tokens.
func TestAgentSDKsTrainAsTheGoWorkflow(t *testing.T) {
	if os.Getenv("TRINITY_AGENTS") != "1" {
		t.Skip("TRINITY_AGENTS=1 needs the packages of bench/peers/requirements-agents.txt")
	}
	model := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if model == "" {
		t.Skip("needs SmolLM2-135M-Instruct: set TRINITY_SMOLLM2_GGUF to the GGUF file")
	}
	t.Chdir("..")
	run := func(name string) (experiences []archived, gradients []float64) {
		dir := t.TempDir()
		records := runExampleIn(t, dir, name+".yaml", "model.model_path="+model, "buffer.total_steps=1", "buffer.batch_size=2",
			"algorithm.repeat_times=4", "algorithm.advantage_fn_args={}", "buffer.explorer_input.eval_tasksets=[]",
			"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=8")
		readArchive(t, dir, &experiences)
		return experiences, curve(records, "actor/grad_norm")
	}
	want, gradients := run("calculator_smollm2/calculator")
	if len(want) != 8 || len(gradients) != 1 {
		t.Fatalf("%d experiences and %d gradients of the workflow in Go, want 8 and 1", len(want), len(gradients))
	}
	for _, name := range []string{"openai_agents", "anthropic_sdk"} {
		got, theirs := run("agent_sdks/" + name)
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(theirs, gradients) {
			t.Errorf("%s: got\n%v, gradient %v\nwant\n%v, gradient %v", name, got, theirs, want, gradients)
		}
	}
}

// Trained with either SDK, SmolLM2 learns what it learns in the Go workflow, step by step.
func TestAgentSDKsLearn(t *testing.T) {
	model := smolLM2(t)
	if os.Getenv("TRINITY_AGENTS") != "1" {
		t.Skip("TRINITY_AGENTS=1 needs the packages of bench/peers/requirements-agents.txt")
	}
	t.Chdir("..")
	want := readResults(t, "examples/calculator_smollm2").Values
	values := map[string][]float64{}
	for name, config := range map[string]string{"OpenAI Agents SDK": "openai_agents", "Anthropic SDK": "anthropic_sdk"} {
		records := runExampleIn(t, t.TempDir(), "agent_sdks/"+config+".yaml", "model.model_path="+model)
		values[name+" right"] = curve(records, "eval/held_out/accuracy/mean@2")
		values[name+" turns"] = curve(records, "eval/held_out/turns/mean@2")
		values[name+" steps"] = curve(records, "rollout/accuracy/mean")
		for _, quantity := range []string{" right", " turns", " steps"} {
			if got, other := shares(values[name+quantity]), shares(want["seed 0"+quantity]); got != other {
				t.Errorf("%s%s: %s, and %s in the Go workflow", name, quantity, got, other)
			}
		}
	}
	hold(t, "examples/agent_sdks", results{Values: values})
}

// archived is what training learns of an experience.
type archived struct {
	ID       trinity.ExperienceID
	Tokens   []int32
	Mask     []bool
	Logprobs []float32
	Reward   struct{ Value float64 }
}

// readArchive appends the experiences that a run below dir has archived to all.
func readArchive[E any](t *testing.T, dir string, all *[]E) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "buffer", "explorer_output.jsonl", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var e E
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			*all = append(*all, e)
		}
	}
}

func sdkTable(r results) map[string]string {
	table := measuredAt(r.Commit) + head("agent", "right", "turns")
	for _, name := range []string{"OpenAI Agents SDK", "Anthropic SDK"} {
		if right := r.Values[name+" right"]; right != nil {
			table += fmt.Sprintf("| %s | %s | %s |\n", name, change(right), change(r.Values[name+" turns"]))
		}
	}
	return map[string]string{"measured": table}
}
