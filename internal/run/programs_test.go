package run_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
)

// servedConfig has a trainer and servers on machines with GPUs.
const servedConfig = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
mode: both
model: {model_path: DIR/model, max_prompt_tokens: 40, max_response_tokens: 8}
algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none}
cluster: {launcher: ssh, hosts: [a, b], gpu_per_node: 8}
trainer: {trainer_type: torch}
buffer:
  total_steps: 4
  batch_size: 8
  explorer_input:
    taskset: {name: digits, path: DIR/train.jsonl, format: {prompt_key: question, response_key: answer}}
    default_workflow_type: simple_workflow
    default_reward_fn_type: test_even
explorer: {rollout_model: {engine_type: vllm}}
`

var renderedProgram = regexp.MustCompile(`(?m)^# r: (\S+); machines: (\d+), GPUs of each: (\d+);`)

// The GPUs are divided machine by machine, so that a plan which is accepted starts.
func TestGPUsAreDivided(t *testing.T) {
	p := newProject(t, tiny, servedConfig)
	const (
		engines, tensor = "explorer.rollout_model.engine_num=", "explorer.rollout_model.tensor_parallel_size="
		ranks, hosts    = "cluster.trainer_ranks=", "cluster.hosts="
	)
	for _, c := range []struct{ set, want string }{
		{"", "cluster.trainer_ranks: 15 ranks of the trainer, as many on each of its machines, and servers: 1, GPUs of each: 1, " +
			"do not fit on the 8 GPUs of each machine, machines: 2; set it to 14, or change the servers"},
		{ranks + "14", "trainer 2×7, rollout-0 1×1"},
		{engines + "2", "trainer 2×7, rollout-0 1×1, rollout-1 1×1"},
		{tensor + "4", "set it to 8, or change the servers"}, // 6 + 6 leaves 2 + 2
		{tensor + "4 " + ranks + "8", "trainer 1×8, rollout-0 1×4"},
		{tensor + "4 " + engines + "2", "trainer 1×8, rollout-0 1×4, rollout-1 1×4"},
		{tensor + "8", "trainer 1×8, rollout-0 1×8"},
		{tensor + "8 " + engines + "2", "engine_num: the servers .2, GPUs of each: 8. leave no GPU for the trainer: there are 8 GPUs of " +
			"each machine, machines: 2; add GPUs, lower it, or use mode colocate"},
		{hosts + "[a] cluster.gpu_per_node=1", "leave no GPU for the trainer: there are 1 GPUs of each machine, machines: 1; add"},
		{"cluster.gpu_per_node=1 " + engines + "9 " + ranks + "1", "leave no GPU for the trainer"},
		{tensor + "16", "tensor_parallel_size: a server needs 16 GPUs .*, and a machine has 8; lower it"},
		{tensor + "5 " + engines + "3 mode=explore",
			"engine_num: there is no room for the servers on the 8 GPUs of each machine, machines: 2; lower it to 2"},
		{tensor + "4 " + engines + "4 mode=explore", "rollout-0 1×4, rollout-1 1×4, rollout-2 1×4, rollout-3 1×4"},
		{hosts + "[a,b,c] " + ranks + "9 " + tensor + "5 " + engines + "3", "trainer 3×3, rollout-0 1×5, rollout-1 1×5, rollout-2 1×5"},
		{ranks + "99999999", "trainer_ranks: 99999999 ranks of the trainer.*set it to 14"},
		{"mode=colocate " + tensor + "4 " + engines + "4", "trainer 2×8, rollout-0 1×4, rollout-1 1×4, rollout-2 1×4, rollout-3 1×4"},
		{"mode=colocate " + tensor + "4 " + ranks + "2", "set it to 16, or change the servers"},
		{"mode=colocate " + tensor + "8 " + engines + "3", "engine_num: 16 ranks of the trainer.*lower it"},
		{"cluster.gpu_per_node=0 " + ranks + "4 " + tensor + "2", "trainer 2×0, rollout-0 1×0"},
		{"cluster.gpu_per_node=0 " + ranks + "3", "3 ranks do not divide among 2 machines; make it a multiple"},
	} {
		set := strings.Fields(c.set)
		if !strings.Contains(c.set, "mode=") {
			set = append(set, "mode=both")
		}
		text, err := settle.RenderPrograms(p.load(t, set...))
		var got []string
		for _, m := range renderedProgram.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1]+" "+m[2]+"×"+m[3])
		}
		said := strings.Join(got, ", ")
		if err != nil {
			said = err.Error()
		}
		if ok, _ := regexp.MatchString(strings.ReplaceAll(c.want, "+", `\+`), said); !ok || err == nil && said != c.want {
			t.Errorf("%s: %s, want %s", c.set, said, c.want)
		}
	}
}

// A run whose launcher cannot tell the GPUs is planned, and does not start.
func TestUnknownGPUs(t *testing.T) {
	p := newProject(t, tiny, servedConfig)
	nobody := "cluster={launcher: ray, ray_address: 'http://127.0.0.1:1', launcher_args: {host: 127.0.0.1}}"
	facts, err := settle.Facts(p.load(t, nobody).Settled()[0])
	const want = "cluster.gpu_per_node is left out, and the GPUs of the machines are not known: Ray at http://127.0.0.1:1"
	if err != nil || !strings.Contains(strings.Join(facts.Programs, "\n"), want) {
		t.Errorf("%v, %v", facts.Programs, err)
	}
	if _, err := p.run(t, nobody); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// What programs on other machines take is not counted as this machine's memory.
func TestMemoryOfOtherMachines(t *testing.T) {
	p := newProject(t, tiny, servedConfig)
	for launcher, want := range map[string]string{"{launcher: ssh, hosts: [a, b], gpu_per_node: 8}": "each machine", "{gpu_per_node: 8}": ""} {
		facts, err := settle.Facts(p.load(t, "cluster="+launcher, "cluster.trainer_ranks=4").Settled()[0])
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, part := range facts.Memory {
			if part.Kind == "loading" {
				found = true
				if part.Device != want {
					t.Errorf("%s: the worker reads the model into the memory of %q, want %q", launcher, part.Device, want)
				}
			}
		}
		if !found {
			t.Errorf("%s: nothing reads the model: %+v", launcher, facts.Memory)
		}
	}
}
