package run_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// Workflows that return several sequences of a rollout, or continue one, train like others.
func TestWorkflowsOfSeveralCallsTrain(t *testing.T) {
	for _, c := range []struct{ workflow, args, metric string }{
		{"r3l_workflow", "{environment: number_guess, max_turns: 3}", `"rollout/retry_gain/mean":`},
		{"thinking_budget_workflow", "{thinking_token_budget: 2, reasoning_end_str: x}", `"rollout/thinking_cut/mean":`},
	} {
		p := newProject(t, tiny, rl)
		write(t, filepath.Join(p.dir, "train.jsonl"), strings.Repeat(`{"question": "?", "answer": "4"}`+"\n", 6))
		_, err := p.run(t, noEvaluation, "buffer.total_steps=2", "model.max_prompt_tokens=400", "model.max_model_len=512",
			"buffer.explorer_input.default_workflow_type="+c.workflow, "buffer.explorer_input.taskset.workflow_args="+c.args)
		if err != nil {
			t.Fatalf("%s: %v", c.workflow, err)
		}
		if metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl")); strings.Count(metrics, c.metric) != 2 {
			t.Errorf("%s: no %s in\n%s", c.workflow, c.metric, metrics)
		}
	}
}
