package config

import (
	"fmt"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The keys of a stage override the file's, except for keys that belong to a choice that the stage
// does not share.
func TestStagesAreMerged(t *testing.T) {
	for name, c := range map[string]struct{ file, stage, want string }{
		"key by key":             {"{a: {x: 1, y: 2}, b: 3}", "{a: {y: 4, z: 5}, c: 6}", "{b: 3, a: {x: 1, y: 4, z: 5}, c: 6}"},
		"a list replaces":        {"{a: [1, 2], m: {l: {x: 1}}}", "{a: [3], m: {l: [2]}}", "{a: [3], m: {l: [2]}}"},
		"null is the default":    {"{m: {a: 1, b: 2}}", "{m: {a: null}}", "{m: {b: 2, a: null}}"},
		"a section that is null": {"{m: {a: 1}}", "{m: null}", "{m: {a: 1}}"},
		"another algorithm":      {"{algorithm: {algorithm_type: grpo, repeat_times: 8, policy_loss_fn: ppo, optimizer: {lr: 1, betas: [1, 2]}}}", "{algorithm: {algorithm_type: sft, optimizer: {lr: 2}}}", "{algorithm: {algorithm_type: sft, optimizer: {betas: [1, 2], lr: 2}}}"},
		"another, no optimizer": {"{algorithm: {algorithm_type: grpo, repeat_times: 8, optimizer: {lr: 1}}}",
			"{algorithm: {algorithm_type: sft}}", "{algorithm: {optimizer: {lr: 1}, algorithm_type: sft}}"},
		"the same algorithm": {"{algorithm: {algorithm_type: grpo, repeat_times: 8}}",
			"{algorithm: {algorithm_type: grpo, policy_loss_fn: ppo}}", "{algorithm: {repeat_times: 8, algorithm_type: grpo, policy_loss_fn: ppo}}"},
		"the file has none": {"{algorithm: {repeat_times: 8}}", "{algorithm: {algorithm_type: dapo}}",
			"{algorithm: {repeat_times: 8, algorithm_type: dapo}}"},
		"another loss": {"{algorithm: {policy_loss_fn: ppo, policy_loss_fn_args: {clip_range: 0.2}, kl_loss_fn: k2, kl_loss_fn_args: {kl_coef: 1}}}", "{algorithm: {policy_loss_fn: sppo}}", "{algorithm: {kl_loss_fn: k2, kl_loss_fn_args: {kl_coef: 1}, policy_loss_fn: sppo}}"},
		"another, with arguments": {"{a: {f_fn: x, f_fn_args: {p: 1}}}", "{a: {f_fn: y, f_fn_args: {q: 2}}}",
			"{a: {f_fn: y, f_fn_args: {q: 2}}}"},
		"the arguments of the one": {"{a: {f_fn: x, f_fn_args: {p: 1}}}", "{a: {f_fn_args: {q: 2}}}", "{a: {f_fn: x, f_fn_args: {p: 1, q: 2}}}"},
		"another store": {"{b: {storage_type: sql, path: p, capacity: 3}}", "{b: {storage_type: file, path: q}}",
			"{b: {storage_type: file, path: q}}"},
		"another selector": {"{s: {selector_type: random, kwargs: {a: 1}}}", "{s: {selector_type: shuffle}}",
			"{s: {selector_type: shuffle}}"},
		"one of two": {"{buffer: {total_steps: 3, explorer_input: {taskset: {path: a}}}}",
			"{buffer: {total_epochs: 2, explorer_input: {tasksets: [{path: b}]}}}",
			"{buffer: {total_epochs: 2, explorer_input: {tasksets: [{path: b}]}}}"},
	} {
		src, err := readSource("c.yaml", []byte(c.file), Options{})
		if err != nil {
			t.Fatal(err)
		}
		src.root.Content = append(src.root.Content, one(t, "{stages: ["+c.stage+"]}").Content...)
		before := inWords(t, src.root)
		if got, want := inWords(t, (&Config{source: src}).stageTree(0)), inWords(t, one(t, c.want)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if inWords(t, src.root) != before {
			t.Errorf("%s: the file has changed", name)
		}
	}
}

// one returns the mapping of a text.
func one(t *testing.T, flow string) *yaml.Node {
	t.Helper()
	src, err := readSource("", []byte(flow), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src.root
}

// inWords returns a tree as one line.
func inWords(t *testing.T, n *yaml.Node) string {
	t.Helper()
	v := (&decoder{source: &source{positions: map[string]Position{}}}).free(n, "")
	return fmt.Sprint(v)
}
