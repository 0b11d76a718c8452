package served_test

import (
	"strings"
	"testing"

	_ "github.com/trinity-go/trinity/algorithm"
	_ "github.com/trinity-go/trinity/algorithm/advantage"
	_ "github.com/trinity-go/trinity/algorithm/loss"
	_ "github.com/trinity-go/trinity/algorithm/sample"
	"github.com/trinity-go/trinity/config"
	_ "github.com/trinity-go/trinity/monitor"
	_ "github.com/trinity-go/trinity/reward"
	_ "github.com/trinity-go/trinity/selector"
	_ "github.com/trinity-go/trinity/workflow"
)

const training = `
mode: both
model: {model_path: m, max_model_len: 8}
algorithm: {algorithm_type: grpo, repeat_times: 2}
buffer:
  total_steps: 1
  explorer_input:
    taskset: {path: t.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward}
    eval_tasksets:
      - {path: e.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward, rollout_args: {top_p: 0.5, top_k: 2}}
explorer: {rollout_model: {engine_type: vllm, base_urls: [http://a:8000, https://b/v1]}}
`

// What changes the distribution of tokens that are trained on is refused where it is written, unless
// the trainer computes their log-probabilities itself. Evaluations may sample as they like.
func TestRefusedValues(t *testing.T) {
	const model, taskset = "explorer.rollout_model", "buffer.explorer_input.taskset.rollout_args"
	for _, c := range []struct{ override, key, want string }{
		{"model.top_p=0.9", "model.top_p", "0.9 for tokens that are trained on"},
		{"model.top_k=20", "model.top_k", "bypass_mode: false"},
		{taskset + "={top_p: 0.9}", taskset + ".top_p", "0.9 for tokens"},
		{"model.repetition_penalty=1.1", "model.repetition_penalty", "1.1 for tokens"},
		{"model.min_response_tokens=2", "model.min_response_tokens", "2 for tokens"},
		{model + ".quantization=int8", model + ".quantization", "the server's"},
		{model + ".base_urls=[]", model + ".engine_type", "set explorer.rollout_model.base_urls"},
		{model + ".base_urls=[a:8000]", model + ".base_urls.0", `"a:8000" is not the address of a server`},
		{model + `.base_urls=["http://u:secret@a:8000"]`, model + ".base_urls.0", "is not the address of a server"},
		{model + `.base_urls=["http://a:8000", "http://a:8000/v1/"]`, model + ".base_urls.1", "is the server of base_urls.0"},
		{"model.min_response_tokens=1", "", ""},
		{"mode=bench", "", ""},
		{"", "", ""},
	} {
		o := config.Options{}
		if c.override != "" {
			o.Overrides = []string{c.override}
		}
		_, err := config.Parse("run.yaml", []byte(training), o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.key+": ") ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want one line with %s and %q", c.override, err, c.key, c.want)
		}
		o.Overrides = append(o.Overrides, "algorithm.rollout_correction.bypass_mode=false")
		if _, err := config.Parse("run.yaml", []byte(training), o); err != nil && strings.HasPrefix(c.override, "model.") {
			t.Errorf("%s with log-probabilities of the trainer: %v", c.override, err)
		}
	}
}

// The plan names the servers, and says what the run asks of them.
func TestPlanNamesServers(t *testing.T) {
	for override, want := range map[string]string{
		"mode=both":  "log-probabilities as sampled, which training reads; each version of the weights, from a directory",
		"mode=bench": "asked for    token ids\n",
	} {
		c, err := config.Parse("run.yaml", []byte(training), config.Options{Overrides: []string{override}})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := c.Plan(config.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		const servers = "servers      http://a:8000, https://b/v1\n"
		if text := plan.String(); !strings.Contains(text, servers) || !strings.Contains(text, want) {
			t.Errorf("%s: %s", override, text)
		}
	}
}
