package cpu_test

import (
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
algorithm: {algorithm_type: grpo, repeat_times: 2, kl_loss_fn: none}
buffer:
  total_steps: 1
  explorer_input:
    taskset: {path: t.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward}
    eval_tasksets:
      - {path: e.jsonl, default_workflow_type: simple_workflow, default_reward_fn_type: math_reward, rollout_args: {top_p: 0.5, top_k: 2}}
`

const recording = `
mode: serve
model: {model_path: m, max_model_len: 8}
algorithm: {algorithm_type: grpo, repeat_times: 2, kl_loss_fn: none}
synchronizer: {sync_style: fully_async}
explorer: {pending_expiry: 60}
`

// The embedded engine tells the log-probabilities of the whole distribution. So nothing else is sampled
// for training, not even if the trainer computes them again. Evaluations, and algorithms that learn the
// text itself, may sample as they like.
func TestChangedSamplingIsRefused(t *testing.T) {
	const set = "buffer.explorer_input.taskset."
	const raft = "algorithm.algorithm_type=raft algorithm.repeat_times=1"
	for _, c := range []struct{ base, overrides, key, want string }{
		{training, "", "", ""},
		{training, "model.top_p=0.8", "model.top_p", "0.8 for tokens that are trained on"},
		{training, "mode=explore model.top_p=0.8", "model.top_p", "0.8 for tokens"},
		{training, "model.top_p=0.8 " + set + "rollout_args.top_p=1", "", ""},
		{training, "model.top_k=20", "model.top_k", "20 for tokens"},
		{training, set + "rollout_args.top_p=0.9", set + "rollout_args.top_p", "0.9 for tokens"},
		{training, "explorer.rollout_model.top_k=20", "explorer.rollout_model.top_k", "20 for tokens"},
		{training, "model.repetition_penalty=1.1", "model.repetition_penalty", "1.1 for tokens"},
		{training, "model.min_response_tokens=2", "model.min_response_tokens", "2 for tokens"},
		{training, set + "default_workflow_type=math_eval_workflow", set + "workflow_args", "top_p 0.8 of math_eval_workflow for tokens"},
		{training, "algorithm.rollout_correction.bypass_mode=false model.top_p=0.8", "model.top_p", "of the whole distribution"},
		{training, raft + " model.top_p=0.8 model.top_k=25", "", ""},
		{training, raft + " model.top_p=0.8 algorithm.kl_loss_fn=k2", "model.top_p", "0.8 for tokens"},
		{training, "algorithm.policy_loss_fn=sft model.top_p=0.8", "", ""},
		{training, "mode=bench model.top_p=0.8", "", ""},
		{recording, "model.top_p=0.5", "model.top_p", "0.5 for tokens"},
		{recording, "model.top_p=0.5 explorer.pending_expiry=0", "", ""},
	} {
		_, err := config.Parse("run.yaml", []byte(c.base), config.Options{Overrides: strings.Fields(c.overrides)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.key+": ") ||
			!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "eval_tasksets") || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want one line with %s and %q", c.overrides, err, c.key, c.want)
		}
	}
}
