package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/rundir"
)

// rowsThatName is rl whose rows may name a workflow and a reward function.
var rowsThatName = strings.Replace(rl, "response_key: answer}", "response_key: answer, workflow_key: how, reward_fn_key: scorer.name}", 1)

// A row that names no plug-in of this program, or one that needs what the run does not open, is
// reported with its file and line before a model is loaded.
func TestRowsNameUnknownPlugins(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"unknown workflow", `{"question": "max 1 2", "answer": "2", "how": "simpel_workflow"}`,
			`train.jsonl:900: format.workflow_key "how": unknown workflow "simpel_workflow" (did you mean "simple_workflow"?)`},
		{"unknown reward", `{"question": "max 1 2", "answer": "2", "scorer": {"name": "nobody"}}`,
			"train.jsonl:900: format.reward_fn_key \"scorer.name\": unknown reward_fn \"nobody\": `trinity list reward_fn` prints the names"},
		{"a number", `{"question": "max 1 2", "answer": "2", "how": 5}`,
			`train.jsonl:900: format.workflow_key "how": want a text, got 5`},
		{"a list", `{"question": "max 1 2", "answer": "2", "scorer": {"name": ["x"]}}`,
			`train.jsonl:900: format.reward_fn_key "scorer.name": want a text, got ["x"]`},
		{"a workflow of packs", `{"question": "max 1 2", "answer": "2", "how": "cod_frozenlake_workflow"}`,
			`train.jsonl:900: format.workflow_key "how": workflow cod_frozenlake_workflow solves packs of tasks, and a row is one task`},
		{"no column of workflows", `{"question": "max 1 2", "answer": "2", "scorer": {"name": "math_reward"}}`,
			`format.workflow_key "how": no row of DIR/train.jsonl has this column`},
		{"no column of rewards", `{"question": "max 1 2", "answer": "2", "how": null}`,
			`format.reward_fn_key "scorer.name": no row of DIR/train.jsonl has this column`},
		{"a judge that nobody opens", `{"question": "max 1 2", "answer": "2", "how": "user_simulation_workflow"}`,
			`train.jsonl:900: workflow user_simulation_workflow with reward function test_even needs the model "0", which`},
		{"a workflow without its arguments", `{"question": "max 1 2", "answer": "2", "how": "environment_workflow"}`,
			`train.jsonl:900: workflow environment_workflow: environment: name one`},
	} {
		p := newProject(t, tiny, rowsThatName)
		want := strings.ReplaceAll(c.want, "DIR", p.dir)
		path := filepath.Join(p.dir, "train.jsonl")
		lines := strings.SplitAfter(read(t, path), "\n")
		lines[899] = c.line + "\n"
		write(t, path, strings.Join(lines, ""))
		_, err := settle.Facts(p.load(t).Settled()[0])
		oneLine(t, err, "taskset digits: ", want)
		_, err = p.run(t)
		oneLine(t, err, "taskset digits: ", want)
		if exists(filepath.Join(p.job(), "monitor", rundir.MetricsFile)) {
			t.Errorf("%s: the run began", c.name)
		}
	}
}

// Rows that name their plug-ins run with them, and the others with the taskset's.
func TestRowsNamePlugins(t *testing.T) {
	p := newProject(t, tiny, rowsThatName)
	path := filepath.Join(p.dir, "train.jsonl")
	write(t, path, `{"question": "max 1 2", "answer": "2", "scorer": {"name": "math_reward"}}
{"question": "max 1 3", "answer": "3", "how": "", "scorer": null}
{"question": "max 1 4", "answer": "4", "how": "math_workflow", "scorer": {"name": "format_reward"}}
`)
	if _, err := p.run(t, "buffer.total_steps=1", "buffer.explorer_input.eval_tasksets=[]", "model.max_prompt_tokens=500"); err != nil {
		t.Fatal(err)
	}
	metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
	for _, name := range []string{`"rollout/accuracy/mean"`, `"rollout/format_score/mean"`, `"rollout/finished_task_count":3`,
		`"rollout/invalid_reward_count":0`,
		`"rollout/prompt_length/max":2`} {
		if !strings.Contains(metrics, name) {
			t.Errorf("no %s in %s", name, metrics)
		}
	}
}
