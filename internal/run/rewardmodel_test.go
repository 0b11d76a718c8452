package run_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// rewardModel writes a random reward model beside the policy.
func (p project) rewardModel(t *testing.T) {
	t.Helper()
	p.judge(t, func(config map[string]any) {
		config["architectures"], config["num_labels"] = []string{"LlamaForSequenceClassification"}, 1
	})
}

func TestARewardModelIsPlanned(t *testing.T) {
	p := newProject(t, tiny, strings.ReplaceAll(rl, "default_reward_fn_type: test_even", "default_reward_fn_type: reward_model"))
	p.rewardModel(t)
	const key = "buffer.explorer_input.taskset.reward_fn_args.model_path"
	plan := func(model string) (config.Facts, error) {
		return settle.Facts(p.load(t, key+"="+filepath.Join(p.dir, model), "buffer.explorer_input.eval_tasksets=[]").Settled()[0])
	}
	f, err := plan("judge")
	if n := len(f.Memory) - 1; err != nil || f.Memory[n].Kind != "reward model" || f.Memory[n].Bytes < 4*54_464 {
		t.Errorf("planned is %v, %v; want a reward model of more than its weights", f.Memory, err)
	}
	if _, err := plan("model"); err == nil || !strings.Contains(err.Error(), key+": reward model") {
		t.Errorf("a policy as a reward model: %v", err)
	}
	label := func(n int) error {
		overrides := []string{key + "=" + filepath.Join(p.dir, "judge"),
			fmt.Sprint("buffer.explorer_input.taskset.reward_fn_args.label=", n), noEvaluation}
		_, planned := settle.Facts(p.load(t, overrides...).Settled()[0])
		if n > 0 {
			_, ran := p.run(t, overrides...)
			oneLine(t, ran, planned.Error())
		}
		return planned
	}
	oneLine(t, label(1), key, "has 1 labels, and label 1 is asked for; want 0 to 0")
	if err := label(0); err != nil {
		t.Errorf("label 0: %v", err)
	}
	for _, file := range []string{"tokenizer.json", "model.safetensors"} {
		if err := os.Remove(filepath.Join(p.dir, "judge", file)); err != nil {
			t.Fatal(err)
		}
		_, err := plan("judge")
		oneLine(t, err, key, filepath.Join(p.dir, "judge"), strings.TrimSuffix(file, ".json"))
	}
	if f, err := plan("none"); err != nil || f.Missing[key] == "" {
		t.Errorf("missing is %v, %v; want the reward model", f.Missing, err)
	}
}

func TestARewardModelTeaches(t *testing.T) {
	p := newProject(t, tiny, strings.ReplaceAll(rl, "default_reward_fn_type: test_even", "default_reward_fn_type: reward_model"))
	p.rewardModel(t)
	args := "buffer.explorer_input.taskset.reward_fn_args."
	if _, err := p.run(t, args+"model_path="+filepath.Join(p.dir, "judge"), args+"scale=-1", "buffer.explorer_input.eval_tasksets=[]",
		"buffer.total_steps=40"); err != nil {
		t.Fatal(err)
	}
	scores := curve(t, p.job(), "explorer", "rollout/score/mean")
	if n := len(scores); n != 40 || mean(scores[30:]) < mean(scores[:10])+0.5 {
		t.Errorf("mean scores of the steps are %v; want 40 that rise", scores)
	}
}
