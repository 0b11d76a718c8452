package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func init() {
	registry.Operators.Register("test_shuffle_rewards", "Gives every experience of a step the reward of another one.",
		func() trinity.Operator { return trinitytest.ShuffleRewards{} })
}

// quantized samples with 8-bit weights and corrects for it.
var quantized = []string{"stages.1.explorer={rollout_model: {quantization: int8}}",
	"stages.1.algorithm.rollout_correction={bypass_mode: false, rollout_is: token, rollout_rs: geometric, rollout_rs_threshold: 1.5}"}

// critic replaces the group's mean by a critic.
var critic = []string{"stages.1.algorithm.advantage_fn=ppo", "stages.1.trainer.critic_warmup=3",
	"stages.1.trainer.trainer_config.critic={optim: {lr: 3e-3}}"}

// Demonstrations have taught a tiny model to answer with either of two digits. From rewards alone
// it learns to answer with the larger one, also if it samples with 8-bit weights. Without a
// learning rate, or with rewards of other rollouts, it does not.
func TestATinyModelLearnsFromRewards(t *testing.T) {
	if testing.Short() {
		t.Skip("trains three models: not in -short")
	}
	yaml := strings.NewReplacer("WARMBATCH", "64", "WARMSTEPS", "80", "WARMSAVE", "80", "RLLR", "2e-3", "RLBATCH", "32", "RLSTEPS",
		"30", "RLSAVE", "30", "RLMINI", "64",
		"WORKFLOW", "simple_workflow", "REWARDARGS", "{pattern: "+
			"'<answer>(?P<answer>[0-9])</answer>'}", "REWARD", "pattern_reward").Replace(staged)
	const short = "stages.1.buffer.total_steps=20"
	for _, c := range []struct {
		name     string
		override []string
		learns   bool
	}{
		{"grpo", nil, true},
		{"8-bit rollouts", quantized, true},
		{"critic", critic, true},
		{"learning rate 0", []string{short, "stages.1.algorithm.optimizer.lr=0"}, false},
		{"shuffled rewards", []string{short, "stages.1.data_processor.experience_pipeline.operators=[{name: test_shuffle_rewards}]"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "grpo" && c.name != "shuffled rewards" {
				trinitytest.Long(t, "trains another model", "internal/run", "internal/trainer", "algorithm", "engine/cpu")
			}
			t.Parallel()
			p := newProject(t, 2, yaml)
			if _, err := p.run(t, c.override...); err != nil {
				t.Fatal(err)
			}
			accuracy := curve(t, filepath.Join(p.job(), "rl"), "explorer", "rollout/accuracy/mean")
			if len(accuracy) < 20 {
				t.Fatalf("%d steps, want at least 20", len(accuracy))
			}
			first, last := mean(accuracy[:10]), mean(accuracy[len(accuracy)-10:])
			if c.learns && (last < 0.9 || last < first+0.15) {
				t.Errorf("accuracy rose from %.3f to %.3f, want at least 0.9 and 0.15 more", first, last)
			}
			if c.name == "8-bit rollouts" {
				checkCorrection(t, p)
			}
			if !c.learns && last > first+0.1 {
				t.Errorf("accuracy rose from %.3f to %.3f, and there was nothing to learn from", first, last)
			}
		})
	}
}

// checkCorrection looks for what rollout correction logs of every step: a sampler that is nearly
// the trainer, and not it.
func checkCorrection(t *testing.T, p project) {
	t.Helper()
	for name, in := range map[string][2]float64{
		"rollout_is_mean": {0.95, 1.05}, "rollout_is_eff_sample_size": {0.9, 1}, "k3_kl": {1e-9, 0.05}, "rollout_rs_masked_fraction": {0, 0.1},
	} {
		values := curve(t, filepath.Join(p.job(), "rl"), "trainer", "rollout_corr/"+name)
		if len(values) != 30 {
			t.Errorf("%s was logged in %d steps of 30", name, len(values))
		}
		for step, v := range values {
			if v < in[0] || v > in[1] {
				t.Errorf("%s of step %d is %v, want it within %v", name, step+1, v, in)
			}
		}
	}
}
