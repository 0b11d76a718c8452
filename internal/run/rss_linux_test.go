package run_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/trinitytest"
)

// peak runs the project in a process of its own and returns its largest resident memory, beside
// what was planned, in bytes. It is the number that getrusage gives, but without that of the
// parent, which a child starts from.
func (p project) peak(t *testing.T, overrides ...string) (measured, planned int64) {
	t.Helper()
	plan, err := p.load(t, overrides...).PlanStages(settle.Facts)
	if err != nil {
		t.Fatal(err)
	}
	status := filepath.Join(t.TempDir(), "status")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childConfig+"="+p.config, childOverrides+"="+strings.Join(overrides, "\n"), childStatus+"="+status)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if _, text, ok := strings.Cut(read(t, status), "VmHWM:"); !ok {
		t.Fatal("the process does not know its peak")
	} else if _, err := fmt.Sscan(text, &measured); err != nil {
		t.Fatal(err)
	}
	measured <<= 10 // from KiB
	planned = plan.Stages[0].MemorySum
	t.Logf("%d MiB measured, %d MiB planned (%+.1f %%)\n%s", measured>>20, planned>>20, 100*(float64(planned)/float64(measured)-1), plan)
	return measured, planned
}

// Here the Go runtime and the program need the most memory, which the plan counts as a constant.
func TestPlanOfATinyModelIsNearThePeak(t *testing.T) {
	if testing.Short() {
		t.Skip("short tests are those of the race detector, which has memory of its own")
	}
	for name, c := range map[string]struct {
		yaml      string
		overrides []string
	}{"rl": {rl, nil}, "sft": {sft, nil}, "critic": {rl, withCritic}} {
		measured, planned := newProject(t, tiny, c.yaml).peak(t, c.overrides...)
		if d := planned - measured; d > 48<<20 || d < -16<<20 {
			t.Errorf("%s: %d MiB measured, %d MiB planned", name, measured>>20, planned>>20)
		}
	}
}

func TestPlanOfSmolLM2IsThePeak(t *testing.T) {
	path := os.Getenv("TRINITY_SMOLLM2_GGUF")
	if path == "" {
		t.Skip("TRINITY_SMOLLM2_GGUF does not name the GGUF file of SmolLM2-135M-Instruct")
	}
	trinitytest.Long(t, "loads a model of 135 M parameters", "internal/run/plan", "engine/cpu")
	const lora = "model.lora_configs=[{name: a, lora_rank: 8, lora_alpha: 16}]"
	for _, c := range []struct {
		name, yaml string
		overrides  []string
	}{
		{"sft-full", sft, []string{"buffer.train_batch_size=2", "model.max_prompt_tokens=100", "model.max_response_tokens=100",
			"trainer.max_token_len_per_gpu=256"}},
		{"sft-adapter", sft, []string{"buffer.train_batch_size=2", "model.max_prompt_tokens=100", "model.max_response_tokens=100",
			"trainer.max_token_len_per_gpu=256", lora}},
		{"grpo-full", rl, []string{"model.max_prompt_tokens=100", "model.max_response_tokens=12", "buffer.batch_size=1",
			"algorithm.repeat_times=2", "buffer.train_batch_size=2", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=2",
			"buffer.explorer_input.eval_tasksets=[]"}},
		{"critic", rl, []string{"model.max_prompt_tokens=100", "model.max_response_tokens=12", "buffer.batch_size=1",
			"algorithm.repeat_times=2", "buffer.train_batch_size=2", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=2",
			"buffer.explorer_input.eval_tasksets=[]", "algorithm.advantage_fn=ppo"}},
		{"grpo-full-kl", rl, []string{"model.max_prompt_tokens=100", "model.max_response_tokens=12", "buffer.batch_size=1",
			"algorithm.repeat_times=2", "buffer.train_batch_size=2", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=2",
			"buffer.explorer_input.eval_tasksets=[]", "algorithm.kl_loss_fn=k2"}},
		{"grpo-adapter", rl, []string{"model.max_prompt_tokens=100", "model.max_response_tokens=12", "buffer.batch_size=1",
			"algorithm.repeat_times=2", "buffer.train_batch_size=2", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=2",
			"buffer.explorer_input.eval_tasksets=[]", lora}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "sft-adapter" && c.name != "grpo-full-kl" {
				trinitytest.TooLong(t, "loads a model of 135 M parameters again")
			}
			p := newProject(t, tiny, c.yaml)
			p.longDemonstrations(t)
			measured, planned := p.peak(t, append(c.overrides, "model.model_path="+path, "buffer.total_steps=1",
				"trainer.save_interval=0", "trainer.save_hf_checkpoint=never")...)
			if off := math.Abs(float64(planned)/float64(measured) - 1); off > 0.1 {
				t.Errorf("%d MiB measured, %d MiB planned: %.1f %% off", measured>>20, planned>>20, 100*off)
			}
		})
	}
}

// longDemonstrations replaces the demonstrations by ones of some 100 tokens of SmolLM2.
func (p project) longDemonstrations(t *testing.T) {
	var lines strings.Builder
	for i := range 64 {
		var reply strings.Builder
		for k := range 12 {
			fmt.Fprintf(&reply, "%d and %d, ", i+k, i*k%100)
		}
		line, err := json.Marshal(map[string]any{"question": fmt.Sprint("count from ", i), "response": reply.String()})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	write(t, filepath.Join(p.dir, "sft.jsonl"), lines.String())
}
