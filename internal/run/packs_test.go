package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
)

// packed is a run of one step whose rollouts solve packs of three tasks.
var packed = strings.NewReplacer(
	"max_prompt_tokens: 40, max_response_tokens: 6", "max_prompt_tokens: 448, max_response_tokens: 6, max_model_len: 480",
	"total_steps: 8", "total_steps: 1",
	"ppo_mini_batch_size: 6", "ppo_mini_batch_size: 4",
	"default_workflow_type: simple_workflow\n    default_reward_fn_type: test_even", "default_workflow_type: cod_frozenlake_obscure_workflow",
	"algorithm_type: grpo", "algorithm_type: cod",
	"eval_interval: 4", "eval_interval: 1",
	"name: digits\n", "name: digits\n      workflow_args: "+lakeArgs+"\n",
	"name: few,", "name: few, workflow_args: "+lakeArgs+",",
).Replace(rl) + "cod: {task_pack_size: 3, cod_workflow_args: {hint_prompt: H}}\n"

const lakeArgs = "{desc: [SG], agent_max_steps: 2, environment_args: {ask: '{map}', tell: '{map}', unread: '?'}, cod: {EVAL}}"

// Training needs the rows of one pack. `check` and `run` say so at the taskset.
func TestTooFewRowsForAPack(t *testing.T) {
	p := newProject(t, tiny, strings.ReplaceAll(packed, "EVAL", ""))
	write(t, filepath.Join(p.dir, "train.jsonl"), "{\"seed\": 1}\n{\"seed\": 2}\n")
	const want = "buffer.explorer_input.taskset.path: there are 2 rows to train on, and a pack has 3 tasks; " +
		"add rows, or lower cod.task_pack_size"
	_, err := settle.Facts(p.load(t).Settled()[0])
	oneLine(t, err, "config.yaml:", want)
	_, err = p.run(t)
	oneLine(t, err, "config.yaml:", want)
}

// The workflow_args of a taskset may say that its last pack of an evaluation is filled.
func TestATasksetFillsItsPacks(t *testing.T) {
	for _, fill := range []bool{false, true} {
		args := ""
		if fill {
			args = "pad_tasks_to_full_pack: true"
		}
		p := newProject(t, tiny, strings.ReplaceAll(packed, "EVAL", args))
		write(t, filepath.Join(p.dir, "train.jsonl"), "{\"seed\": 1}\n{\"seed\": 2}\n{\"seed\": 3}\n")
		write(t, filepath.Join(p.dir, "eval.jsonl"), "{\"seed\": 1}\n{\"seed\": 2}\n")
		if _, err := p.run(t); err != nil {
			t.Fatal(err)
		}
		metrics := read(t, filepath.Join(p.job(), "monitor", "metrics.jsonl"))
		if !strings.Contains(metrics, `"eval/few/reward_pos_1/`) || strings.Contains(metrics, `"eval/few/reward_pos_2/`) != fill {
			t.Errorf("fill %v: %s", fill, metrics)
		}
	}
}
