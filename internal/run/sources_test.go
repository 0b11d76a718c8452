package run_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run/settle"
)

// mixed is rl with 3 demonstrations, of 4 that come again and again, beside the 12 rollouts of a
// step.
var mixed = strings.NewReplacer(
	"algorithm_type: grpo,", "algorithm_type: mix, sample_strategy_args: {expert_data_ratio: 0.2}, policy_loss_fn_args: {mu: 0.5},",
	"  total_steps: 8\n", `  total_steps: 8
  train_batch_size: 15
  trainer_input:
    auxiliary_buffers:
      sft_dataset:
        path: DIR/eval.jsonl
        format: {prompt_type: plaintext, prompt_key: question, response_key: answer}
        data_selector: {selector_type: shuffle, seed: 4}
`, "ppo_mini_batch_size: 6", "ppo_mini_batch_size: 15").Replace(rl)

func TestDemonstrationsAreMixedIn(t *testing.T) {
	p := newProject(t, tiny, mixed)
	f, err := settle.Facts(p.load(t).Settled()[0])
	if n := f.Rows["buffer.trainer_input.auxiliary_buffers.sft_dataset"]; err != nil || n != 4 {
		t.Errorf("%d rows, %v", n, err)
	}
	for name, overrides := range map[string][]string{
		"mix":       nil,
		"corrected": {"algorithm.bypass_old_logprobs=false"},
		"chord": {"algorithm.algorithm_type=mix_chord",
			"algorithm.policy_loss_fn_args={mu_peak: 0.9, mu_valley: 0.5, enable_phi_function: false}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := p.copyOf(t)
			if _, err := p.run(t, append(overrides, "buffer.total_steps=16")...); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]float64{"sample/expert_count": 3, "sample/task_count": 3} {
				if got := curve(t, p.job(), "trainer", name); len(got) != 16 || slices.Min(got) != want || slices.Max(got) != want {
					t.Errorf("%s is %v, want %v in 16 steps", name, got, want)
				}
			}
			if got := curve(t, p.job(), "trainer", "sample/model_version/min"); got[15] != 15 {
				t.Errorf("versions are %v: demonstrations have none", got)
			}
			if loss := curve(t, p.job(), "trainer", "actor/expert/sft_loss"); loss[15] > loss[0]-0.5 {
				t.Errorf("the loss of the demonstrations is %v: they were not learnt", loss)
			}
			if got := curve(t, p.job(), "trainer", "rollout_corr/rollout_is_mean"); name == "corrected" &&
				(len(got) != 16 || slices.Max(got) > 1.0001 || slices.Min(got) < 0.9999) {
				t.Errorf("ratios are %v: those of rollouts are 1, and demonstrations have none", got)
			}
		})
	}
}

// If the file sets the epochs of the demonstrations, training ends with them.
func TestARunEndsWithTheDemonstrations(t *testing.T) {
	p := newProject(t, tiny, mixed)
	summary, err := p.run(t, "buffer.trainer_input.auxiliary_buffers.sft_dataset.total_epochs=4", "explorer.eval_on_startup=false")
	if err != nil || summary.Stages[0].Steps != 6 { // 5 of 3 and what is left of 16
		t.Errorf("%d steps, %v", summary.Stages[0].Steps, err)
	}
	if got := curve(t, p.job(), "trainer", "sample/expert_count"); len(got) != 6 || got[5] != 1 {
		t.Errorf("%v demonstrations", got)
	}
}

// With new weights every third step and max_staleness 2, nothing is left to train on in each third
// step: the step is empty, and the run goes on.
func TestStaleExperiencesAreDropped(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, "algorithm.sample_strategy=staleness_control", "algorithm.sample_strategy_args.max_staleness=2",
		"synchronizer.sync_interval=3", noEvaluation); err != nil {
		t.Fatal(err)
	}
	if got := curve(t, p.job(), "trainer", "sample/stale_count"); !slices.Equal(got, []float64{0, 0, 12, 0, 0, 12, 0, 0}) {
		t.Errorf("dropped %v", got)
	}
	if got := curve(t, p.job(), "trainer", "actor/lr"); len(got) != 6 {
		t.Errorf("%d of 8 steps changed the weights, want 6", len(got))
	}
}

func TestWrongAuxiliaryBuffersAreErrors(t *testing.T) {
	p := newProject(t, tiny, mixed)
	const key = "buffer.trainer_input.auxiliary_buffers.sft_dataset"
	_, err := p.run(t, key+".format.response_key=none")
	oneLine(t, err, key, "eval.jsonl", `no field "none"`)
	_, err = p.run(t, key+".path="+p.dir+"/nowhere.jsonl")
	oneLine(t, err, key, "nowhere.jsonl")
}

// check names files without rows, and so does a run before it opens its model. Missing shards are
// an error before the first stage.
func TestIncompleteDatasetsAreErrors(t *testing.T) {
	p := newProject(t, tiny, rl)
	row := read(t, filepath.Join(p.dir, "train.jsonl"))
	write(t, filepath.Join(p.dir, "shards", "train-00000-of-00003.jsonl"), row)
	write(t, filepath.Join(p.dir, "shards", "train-00002-of-00003.jsonl"), row)
	write(t, filepath.Join(p.dir, "empty.jsonl"), "")
	const key = "buffer.explorer_input.taskset.path"
	for _, c := range []struct{ path, where, want string }{
		{"shards", key + ": dataset", "files are missing: train-00001-of-00003.jsonl"},
		{"empty.jsonl", "taskset digits: dataset", "empty.jsonl has no rows"},
	} {
		override := key + "=" + filepath.Join(p.dir, c.path)
		_, err := p.load(t, override).PlanStages(settle.Facts)
		oneLine(t, err, c.want)
		_, err = p.run(t, override)
		oneLine(t, err, c.where, c.want)
	}
}
