package served_test

import (
	"slices"
	"strings"
	"testing"

	_ "github.com/trinity-go/trinity/algorithm"
	_ "github.com/trinity-go/trinity/algorithm/advantage"
	_ "github.com/trinity-go/trinity/algorithm/loss"
	_ "github.com/trinity-go/trinity/algorithm/sample"
	"github.com/trinity-go/trinity/internal/config"
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
	const set = "buffer.explorer_input.taskset."
	for _, c := range []struct{ override, key, want string }{
		{set + "default_workflow_type=math_eval_workflow", set + "workflow_args", "top_p 0.8 of math_eval_workflow for tokens"},
		{"buffer.explorer_input.eval_tasksets.0.default_workflow_type=math_eval_workflow", "", ""},
		{"model.top_p=0.9", "model.top_p", "0.9 for tokens that are trained on"},
		{"model.top_k=20", "model.top_k", "bypass_mode: false"},
		{taskset + "={top_p: 0.9}", taskset + ".top_p", "0.9 for tokens"},
		{"explorer.rollout_model.top_p=0.9", "explorer.rollout_model.top_p", "0.9 for tokens"},
		{"explorer.rollout_model.top_k=20", "explorer.rollout_model.top_k", "20 for tokens"},
		{"explorer.rollout_model.repetition_penalty=1.1", "explorer.rollout_model.repetition_penalty", "1.1 for tokens"},
		{"model.repetition_penalty=1.1", "model.repetition_penalty", "1.1 for tokens"},
		{"model.min_response_tokens=2", "model.min_response_tokens", "2 for tokens"},
		{model + ".quantization=int8", model + ".quantization", "the server's"},
		{model + ".base_urls=[a:8000]", model + ".base_urls.0", `"a:8000" is not the address of a server`},
		{model + `.base_urls=["http://u:secret@a:8000"]`, model + ".base_urls.0", "is not the address of a server"},
		{model + `.base_urls=["http://a:8000", "http://a:8000/v1/"]`, model + ".base_urls.1", "is the server of base_urls.0"},
		{model + ".extra_engine_args={api-key: secret}", model + ".extra_engine_args.api-key", "the run gives the servers that it starts a key"},
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
		if _, err := config.Parse("run.yaml", []byte(training), o); err != nil && !strings.HasPrefix(c.override, model) {
			t.Errorf("%s with log-probabilities of the trainer: %v", c.override, err)
		}
	}
}

// A secret in a command is read by everybody on the machine, and stands in the plan.
func TestSecretsAmongArguments(t *testing.T) {
	const args = "explorer.rollout_model.extra_engine_args"
	for arg, refused := range map[string]bool{
		"hf_token: hunter2": true, "hf-token: hunter2": true, "HF_TOKEN: hunter2": true, "admin_api_key: 1234": true,
		"db-password: hunter2": true, "client_secret: hunter2": true, "key: hunter2": true,
		"hf_token: true": false, "max_num_batched_tokens: 1234": false, "long_prefill_token_threshold: 1234": false,
		"ssl-keyfile: hunter2": false, "tokenizer: hunter2": false,
	} {
		_, err := config.Parse("run.yaml", []byte(training), config.Options{Overrides: []string{args + "={" + arg + "}"}})
		name, _, _ := strings.Cut(arg, ":")
		said := ""
		if err != nil {
			said = err.Error()
		}
		if refused != (err != nil) || strings.Contains(said, "hunter2") || strings.Contains(said, "1234") || refused &&
			(!strings.Contains(said, args+"."+name+": ") || !strings.Contains(said, "a credential among the arguments") ||
				!strings.Contains(said, "engine_args.env")) {
			t.Errorf("%s: %v, refused %t", arg, err, refused)
		}
	}
}

const recording = `
mode: serve
model: {model_path: m, max_model_len: 8}
algorithm: {algorithm_type: grpo, repeat_times: 2}
synchronizer: {sync_style: fully_async}
explorer: {pending_expiry: 60, rollout_model: {engine_type: vllm, base_urls: [http://a:8000]}}
`

// Mode serve has no tasksets: what it records is sampled as the rollout model says.
func TestRefusedValuesOfTraffic(t *testing.T) {
	const model = "explorer.rollout_model."
	for _, c := range []struct{ override, key, want string }{
		{"model.top_p=0.5", "model.top_p", "0.5 for tokens that are trained on"},
		{"model.top_k=20", "model.top_k", "20 for tokens"},
		{model + "top_p=0.5", model + "top_p", "0.5 for tokens"},
		{model + "top_k=20", model + "top_k", "20 for tokens"},
		{model + "repetition_penalty=1.1", model + "repetition_penalty", "1.1 for tokens"},
		{model + "min_response_tokens=2", model + "min_response_tokens", "2 for tokens"},
		{"algorithm.algorithm_type=grpo", "", ""},
	} {
		_, err := config.Parse("run.yaml", []byte(recording), config.Options{Overrides: []string{c.override}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), " "+c.key+": ") ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want one line with %s and %q", c.override, err, c.key, c.want)
		}
		for _, plain := range []string{"explorer.pending_expiry=0", "algorithm.rollout_correction.bypass_mode=false"} {
			if _, err := config.Parse("run.yaml", []byte(recording), config.Options{Overrides: []string{c.override, plain}}); err != nil {
				t.Errorf("%s with %s: %v", c.override, plain, err)
			}
		}
	}
}

const distilling = `
mode: both
model: {model_path: m, max_model_len: 8}
algorithm: {algorithm_type: on_policy_distill, repeat_times: 2}
buffer:
  total_steps: 1
  explorer_input:
    taskset: {path: t.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward}
    eval_tasksets:
      - {path: e.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward, rollout_args: {temperature: 0.5}}
explorer: {auxiliary_models: [{name: t, engine_type: vllm, base_urls: [http://a:8000], api_key: k}]}
`

// A teacher behind servers needs addresses, temperature 1 and a loss that reads log-probabilities.
func TestTeachersBehindServers(t *testing.T) {
	const teacher, taskset = "explorer.auxiliary_models.0", "buffer.explorer_input.taskset.rollout_args"
	for _, c := range []struct{ override, key, want string }{
		{teacher + ".base_urls=[]", teacher + ".base_urls", "start them"},
		{teacher + ".base_urls=[nowhere]", teacher + ".base_urls.0", `"nowhere" is not the address of a server`},
		{teacher + ".base_urls=[http://a:1, http://a:1/v1]", teacher + ".base_urls.1", "is the server of base_urls.0"},
		{"model.temperature=0.7", "model.temperature", "0.7 for a teacher behind servers, which score at temperature 1"},
		{taskset + "={temperature: 0.7}", taskset + ".temperature", "0.7 for a teacher"},
		{"explorer.rollout_model.temperature=0.7", "explorer.rollout_model.temperature", "0.7 for a teacher"},
		{"algorithm.policy_loss_fn=distill", teacher + ".engine_type", "policy_loss_fn distill, which compares whole distributions"},
		{teacher + ".engine_type=cpu", teacher + ".model_path", "no model_path"},
		{"", "", ""},
	} {
		o := config.Options{}
		if c.override != "" {
			o.Overrides = []string{c.override}
		}
		_, err := config.Parse("run.yaml", []byte(distilling), o)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.key+": ") ||
			!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want one line with %s and %q", c.override, err, c.key, c.want)
		}
	}
	o := config.Options{Overrides: []string{teacher + ".model_path=m", teacher + ".dtype=float32"}}
	c, err := config.Parse("run.yaml", []byte(distilling), o)
	if err != nil {
		t.Fatal(err)
	}
	var unused []string
	for _, n := range c.Settled()[0].Unused() {
		unused = append(unused, n.Key+": "+n.Reason)
	}
	const decides = ": the teacher's servers decide it"
	if want := []string{teacher + ".dtype" + decides, teacher + ".model_path" + decides}; !slices.Equal(unused, want) {
		t.Errorf("without a meaning are %q, want %q", unused, want)
	}
	plan, err := c.Plan(config.Facts{})
	if err != nil || !strings.Contains(plan.String(), "teacher      t, vllm at http://a:8000\n") {
		t.Errorf("%v\n%s", err, plan)
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
