package standard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// Section cod is checked with the workflows of the tasksets.
func TestSectionCod(t *testing.T) {
	const base = `
cod: {task_pack_size: 4, cod_workflow_args: {hint_penalty_coef: 0.1}}
model: {model_path: m, max_model_len: 64}
buffer: {batch_size: 8, explorer_input: {taskset: {path: t.jsonl, default_workflow_type: cod_grid_navigation_workflow}}}
`
	for _, c := range []struct{ old, by, want string }{
		{"", "", ""},
		{"batch_size: 8", "batch_size: 6", "buffer.batch_size: is 6 tasks, no multiple of the 4 tasks of a pack"},
		{"cod_grid_navigation_workflow", "frozen_lake_workflow", "cod: no taskset has a workflow that solves packs"},
		{"buffer: {", "stages: [{stage_name: warmup, mode: train, algorithm: {algorithm_type: sft}, buffer: {train_batch_size: 1, " +
			"trainer_input: {experience_buffer: {path: w.jsonl}}}}, {stage_name: rl}]\nbuffer: {total_steps: 1, ", ""},
		{"hint_penalty_coef: 0.1", "hint_penalty_coef: -1", "cod.cod_workflow_args.hint_penalty_coef: must be at least 0"},
		{"hint_penalty_coef: 0.1", "hint_penalty_coef: much", "cod.cod_workflow_args.hint_penalty_coef: wants a number"},
		{"hint_penalty_coef: 0.1", "hint_penalty: 1", "hint_penalty"},
		{"taskset: {path: t.jsonl, default_workflow_type: cod_grid_navigation_workflow}", "tasksets: [{name: a, path: t, " +
			"default_workflow_type: cod_grid_navigation_workflow}, {name: b, path: u, " +
			"default_workflow_type: frozen_lake_workflow}]", "solves single tasks"},
		{"path: t.jsonl", "path: t.jsonl, workflow_args: {cod: {hint_penalty: 1}}", "taskset.workflow_args.cod: has invalid keys: hint_penalty"},
		{base, strings.NewReplacer("hint_penalty_coef: 0.1", "hint_penalty: 1", "path: t.jsonl", // the section's, not the taskset's
			"path: t.jsonl, workflow_args: {cod: {len_max_penalty: 9}}").Replace(base), "cod.cod_workflow_args: has invalid keys: hint_penalty"},
		{"path: t.jsonl", "path: t.jsonl, workflow_args: {cod: 1}", "taskset.workflow_args.cod: wants"},
	} {
		_, err := config.Parse("c.yaml", []byte(strings.Replace(base, c.old, c.by, 1)), config.Options{Engine: "cpu"})
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "c.yaml:")) {
			t.Errorf("%s: %v, want %q", c.by, err, c.want)
		}
	}
}

// The arguments of a taskset come before those of section cod.
func TestATasksetHasItsOwnCodArguments(t *testing.T) {
	cfg, err := config.Parse("c.yaml", []byte(`
cod: {cod_workflow_args: {hint_penalty_coef: 0.1, len_max_penalty: 9}}
model: {model_path: m, max_model_len: 64}
buffer: {batch_size: 8, explorer_input: {taskset: {path: t.jsonl, default_workflow_type: cod_grid_navigation_workflow,
  workflow_args: {cod: {hint_penalty_coef: 0.5, pad_tasks_to_full_pack: true}}}}}
`), config.Options{Engine: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Settled()[0]
	got := fmt.Sprint(s.Cod.ArgsOfWorkflow(s.Data.Tasksets[0])["cod"])
	if want := "map[hint_penalty_coef:0.5 len_max_penalty:9 pad_tasks_to_full_pack:true]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
