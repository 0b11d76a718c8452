package examples

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/trinitytest"
)

// simpleGSM8K asks SmolLM2 questions of GSM8K. It only explores.
const simpleGSM8K = `
mode: explore
project: compat
name: NAME
seed: 3
model: {model_path: MODEL, max_prompt_tokens: 320, max_response_tokens: TOKENS}
algorithm: {algorithm_type: grpo, repeat_times: RUNS}
buffer:
  batch_size: ROWS
  total_steps: 1
  explorer_input:
    taskset:
      path: DATA
      format:
        prompt_key: question
        response_key: answer
        system_prompt: Write a few words of thought in <think> and </think>, and then the number in <answer> and </answer>.
      rollout_args: {temperature: 0.7}
    default_workflow_type: WORKFLOW
    default_reward_fn_type: REWARD
  trainer_input: {experience_buffer: {storage_type: file}}
data_processor: {experience_pipeline: {save_input: true}}
python: {interpreter: PYTHON}
`

// answered is an archived experience with its text.
type answered struct {
	archived
	Response, Truth string
}

// SimpleWorkflow of Trinity-RFT with its MathRewardFn explores what simple_workflow with math_reward does: the same tokens with the
// same bits of log-probabilities, and the same rewards but for the forms that docs/reference/algorithms.md names.
func TestCompatSimpleWorkflow(t *testing.T) {
	python := trinitytest.CompatPython(t, "math_verify", "openai")
	model := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if model == "" {
		t.Skip("needs SmolLM2-135M-Instruct: set TRINITY_SMOLLM2_GGUF to the GGUF file")
	}
	all, err := os.ReadFile("../../shared/data/gsm8k/train.jsonl")
	if err != nil {
		t.Skip("shared/data/gsm8k is not beside the repository")
	}
	bridge.Allow(func(string) {})
	rows, runs, tokens := 6, 4, 64
	if trinitytest.EffortFor() == trinitytest.Heavy {
		rows, runs, tokens = 48, 8, 128
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	data := write("data.jsonl", strings.Join(strings.SplitAfter(string(all), "\n")[:rows], ""))
	explore := func(name, workflow, reward string) (out []answered) {
		text := strings.NewReplacer("NAME", name, "MODEL", model, "TOKENS", strconv.Itoa(tokens), "RUNS", strconv.Itoa(runs),
			"ROWS", strconv.Itoa(rows), "DATA", data, "WORKFLOW", workflow, "REWARD", reward, "PYTHON", python).Replace(simpleGSM8K)
		root := filepath.Join(dir, name)
		cfg, err := config.Load(write(name+".yaml", text), config.Options{Overrides: []string{"checkpoint_root_dir=" + root}})
		if err == nil {
			_, err = run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(s string) { t.Log(s) }})
		}
		if err != nil {
			t.Fatal(err)
		}
		readArchive(t, root, &out)
		return out
	}
	want := explore("go", "simple_workflow", "math_reward")
	got := explore("python", "trinity.common.workflows.SimpleWorkflow", "trinity.common.rewards.math_reward.MathRewardFn")
	if len(want) != rows*runs || len(got) != len(want) {
		t.Fatalf("%d rollouts in Go and %d in Python, want %d", len(want), len(got), rows*runs)
	}
	different := 0
	for i, w := range want {
		g := got[i]
		same := g.ID == w.ID && slices.Equal(g.Tokens, w.Tokens) && slices.Equal(g.Mask, w.Mask)
		if !same || !slices.Equal(bits(g.Logprobs), bits(w.Logprobs)) {
			t.Errorf("%v has other tokens or log-probabilities: %q, want %q", w.ID, g.Response, w.Response)
		}
		if g.Reward == w.Reward {
			continue
		}
		different++
		if says := w.Response; strings.Count(says, "<answer>") < 2 && !computes.MatchString(says) && !endsInWords.MatchString(says) {
			t.Errorf("%v: reward %v, in Go %v: %q, and the answer is %q", w.ID, g.Reward.Value, w.Reward.Value, says, w.Truth)
		}
	}
	if t.Logf("%d of %d rewards differ", different, len(want)); different*20 > len(want) {
		t.Errorf("%d of %d rewards differ, want at most 5 %%", different, len(want))
	}
}

// The forms that docs/reference/algorithms.md names, besides several answers: an expression in running text, which Trinity-RFT
// computes, and a last line without a number, above which it looks for one.
var (
	computes    = regexp.MustCompile(`[0-9)] ?[-+*/×x] ?[(0-9]`)
	endsInWords = regexp.MustCompile(`\n[^0-9\n]+$`)
)

// bits returns numbers as they are stored, of which NaN equals itself.
func bits(numbers []float32) (out []uint32) {
	for _, n := range numbers {
		out = append(out, math.Float32bits(n))
	}
	return out
}
