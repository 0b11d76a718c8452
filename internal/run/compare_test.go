package run_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
)

const fewTrainSteps = "buffer.total_steps=2"

// A run does not resume with settings that do not fit its checkpoint, and reports other changes.
// `check` and `run` say the same.
func TestAResumedRunIsCompared(t *testing.T) {
	p := newProject(t, tiny, sft)
	if _, err := p.run(t, fewTrainSteps); err != nil {
		t.Fatal(err)
	}
	other := newProject(t, 2, sft) // another shape
	write(t, filepath.Join(p.dir, "other", "config.json"), read(t, filepath.Join(other.dir, "model", "config.json")))
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		write(t, filepath.Join(p.dir, "other", name), read(t, filepath.Join(p.dir, "model", name)))
	}
	rows := read(t, filepath.Join(p.dir, "sft.jsonl"))
	write(t, filepath.Join(p.dir, "half.jsonl"), rows[:strings.Index(rows, "\n")+1])
	lora := "model.lora_configs=[{lora_rank: 4, lora_alpha: 8, target_modules: all-linear}]"
	for _, c := range []struct{ override, want string }{
		{"algorithm.optimizer.optimizer_type=sgd", "algorithm.optimizer.optimizer_type: is sgd and was adamw, so the run cannot go on " +
			"from global_step_2; put it back, or give the run another name"},
		{lora, "model.lora_configs.0.lora_rank: is 4 and was not set"},
		{"model.model_path=" + filepath.Join(p.dir, "other"), "model.model_path: is another model than the checkpoint's"},
		{"buffer.trainer_input.experience_buffer.path=" + filepath.Join(p.dir, "half.jsonl"),
			"buffer.trainer_input.experience_buffer.path: holds other data than when the checkpoint was written"},
	} {
		_, checked := settle.Facts(p.load(t, fewTrainSteps, c.override).Settled()[0])
		_, ran := p.run(t, fewTrainSteps, c.override)
		for _, err := range []error{checked, ran} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", c.override, err, c.want)
			}
		}
	}
	if f, err := settle.Facts(p.load(t, fewTrainSteps).Settled()[0]); err != nil || f.Changed != nil {
		t.Errorf("nothing is changed: %q, %v", f.Changed, err)
	}
	if _, err := settle.Facts(p.load(t, fewTrainSteps, "explorer.share=1/2").Settled()[0]); err != nil {
		t.Errorf("a share, which no trainer has: %v", err)
	}
	secret := []string{fewTrainSteps, "explorer.rollout_model.api_key=sk-1"}
	if f, err := settle.Facts(p.load(t, secret...).Settled()[0]); err != nil || f.Changed != nil {
		t.Errorf("a secret is changed: %q, %v", f.Changed, err)
	}
	more := []string{"buffer.total_steps=3", "algorithm.optimizer.lr=1e-3", "monitor.monitor_type=tensorboard"}
	want := []string{"algorithm.optimizer.lr is 0.001 after step 2, and was 0.005", "buffer.total_steps is 3 after step 2, and was 2"}
	if f, err := settle.Facts(p.load(t, more...).Settled()[0]); err != nil || !slices.Equal(f.Changed, want) {
		t.Errorf("changed: %q, %v", f.Changed, err)
	}
	var said []string
	if _, err := run.Run(t.Context(), t.Context(), p.load(t, more...),
		run.Options{Say: func(s string) { said = append(said, s) }}); err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !slices.Contains(said, w) {
			t.Errorf("%q is not said: %q", w, said)
		}
	}
	if f, err := settle.Facts(p.load(t, more...).Settled()[0]); err != nil || f.Changed != nil {
		t.Errorf("the next checkpoint is made with it: %q, %v", f.Changed, err)
	}
	if _, err := settle.Facts(p.load(t, fewTrainSteps, "continue_from_checkpoint=false", lora).Settled()[0]); err != nil {
		t.Errorf("a run that begins anew: %v", err)
	}
}

// A resumed run compares its tasksets with the checkpoint by content. A stage begins with the model
// of the stage before it.
func TestTasksetsAreComparedByContent(t *testing.T) {
	p := newProject(t, tiny, fewSteps)
	if _, err := p.run(t); err != nil {
		t.Fatal(err)
	}
	stage := p.load(t).Settled()[1]
	if f, err := settle.Facts(stage); err != nil || f.Changed != nil {
		t.Errorf("nothing is changed: %q, %v", f.Changed, err)
	}
	path := filepath.Join(p.dir, "train.jsonl")
	write(t, path, strings.Replace(read(t, path), "max", "min", 1))
	_, err := settle.Facts(stage)
	oneLine(t, err, "config.yaml", "buffer.explorer_input.taskset.path: holds other data than when the checkpoint was written")
}

// A run does not resume if a change would shift its positions in the data. The error names the key.
func TestPositionsInTheDataAreCompared(t *testing.T) {
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, fewTrainSteps); err != nil {
		t.Fatal(err)
	}
	const storage = "buffer.trainer_input.experience_buffer.storage_type"
	for override, want := range map[string]string{
		"explorer.share=1/2": "explorer.share: is 1/2 and was 1/1, so the run cannot go on from global_step_2",
		storage + "=sql":     storage + ": is sql and was queue, so the run cannot go on from global_step_2",
	} {
		_, err := p.run(t, "buffer.total_steps=3", override)
		oneLine(t, err, want)
	}
}

// The buffer of a run without router replay holds experiences without experts.
func TestReplayIsNotSwitchedOnLater(t *testing.T) {
	const replay, record = "algorithm.enable_router_replay", "explorer.rollout_model.enable_return_routed_experts"
	p := newProject(t, 2, rl)
	p.experts(t)
	records := p.copyOf(t)
	if _, err := p.run(t, fewTrainSteps); err != nil {
		t.Fatal(err)
	}
	_, err := p.run(t, "buffer.total_steps=3", replay+"=true")
	oneLine(t, err, replay+": is true and was false, so the run cannot go on from global_step_2")
	if _, err := records.run(t, fewTrainSteps, record+"=true"); err != nil {
		t.Fatal(err)
	}
	if _, err := records.run(t, "buffer.total_steps=3", record+"=true", replay+"=true"); err != nil {
		t.Error(err)
	}
}
