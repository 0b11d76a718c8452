package config

import (
	"strings"
	"testing"
)

// In mode both, the trained adapter samples training tasks. Other tasksets may name any adapter of
// the list.
func TestAdaptersOfTasksets(t *testing.T) {
	const taskset, two = "buffer.explorer_input.taskset.rollout_args.adapter", "  lora_configs: [{name: mine}, {name: other, path: p}]\n"
	text := strings.Replace(base, "model:\n", "model:\n"+two, 1)
	expectError(t, text, taskset+"=other", taskset, `"other" is not the trained adapter`, false)
	expectError(t, text, taskset+"=base", taskset, `"base" is not the trained adapter`, false)
	expectError(t, text, taskset+"=nobody", taskset, "adapters are base, mine, other", false)
	c := mustParse(t, text, Options{Overrides: []string{taskset + "=mine",
		"buffer.explorer_input.eval_tasksets=[{path: p, rollout_args: {adapter: other}}]"}})
	in := c.Buffer.ExplorerInput
	if c.Model.Adapter(in.Taskset.RolloutArgs.Adapter) != "" || c.Model.Adapter(in.EvalTasksets[0].RolloutArgs.Adapter) != "other" {
		t.Error("the first adapter is the policy, a further one itself")
	}
	if more := c.Model.SampledAdapters(); len(more) != 1 || more[0].Name != "other" {
		t.Errorf("adapters beside the trained one: %v", more)
	}
}
