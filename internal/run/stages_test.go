package run_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/run"
)

// sharedByStages is what the stages of the tests below have in common: it is merged into each.
const sharedByStages = `
project: p
name: r
checkpoint_root_dir: DIR/checkpoints
seed: 3
mode: train
model: {model_path: DIR/model, init: {style: fan_in}, max_prompt_tokens: 40, max_response_tokens: 8}
algorithm: {optimizer: {lr: 2e-3, lr_warmup_steps: 1, lr_scheduler_type: linear}}
buffer:
  total_steps: 4
  train_batch_size: 8
  explorer_input:
    taskset: {name: digits, path: DIR/train.jsonl, format: {prompt_key: question, response_key: answer},
        data_selector: {selector_type: shuffle, seed: 5}}
    default_workflow_type: simple_workflow
    default_reward_fn_type: test_even
  trainer_input:
    experience_buffer: {format: {prompt_type: plaintext, prompt_key: question}, data_selector: {selector_type: shuffle, seed: 1}}
trainer: {save_interval: 2}
monitor: {monitor_type: jsonl}
stages:
`

// learningStages go from demonstrations over preferences to rewards.
const learningStages = sharedByStages + `
  - {stage_name: sft, algorithm: {algorithm_type: sft},
      buffer: {trainer_input: {experience_buffer: {path: DIR/sft.jsonl, format: {response_key: response}}}}}
  - {stage_name: dpo, algorithm: {algorithm_type: dpo}, buffer: {trainer_input: {experience_buffer: {path: DIR/dpo.jsonl}}},
      trainer: {save_interval: 1}}
  - {stage_name: grpo, mode: both, algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none},
      buffer: {batch_size: 3, train_batch_size: 12}}
  - {stage_name: score, mode: bench, buffer: {explorer_input: {eval_tasksets: [{name: few, path: DIR/eval.jsonl,
      format: {prompt_key: question, response_key: answer}}]}}}
`

// exploringStages explore into a file, and train on that.
const exploringStages = sharedByStages + `
  - stage_name: explore
    mode: explore
    algorithm: {algorithm_type: grpo, repeat_times: 4, kl_loss_fn: none}
    buffer: {batch_size: 3, trainer_input: {experience_buffer: {storage_type: file, path: DIR/checkpoints/rollouts.jsonl}}}
  - stage_name: learn
    algorithm: {algorithm_type: grpo, kl_loss_fn: none}
    buffer: {trainer_input: {experience_buffer: {storage_type: file, path: DIR/checkpoints/rollouts.jsonl}}}
`

// Stages of any mode and algorithm follow one another. Each starts from the weights of the stage
// before it, and all share the common part of the file.
func TestStagesOfAnyModeFollowOneAnother(t *testing.T) {
	for yaml, want := range map[string]string{
		learningStages:  "sft train sft, dpo train dpo, grpo both grpo, score bench ppo",
		exploringStages: "explore explore grpo, learn train grpo",
	} {
		p := newProject(t, tiny, yaml)
		var said strings.Builder
		summary, err := run.Run(t.Context(), t.Context(), p.load(t), run.Options{Say: func(line string) { said.WriteString(line + "\n") }})
		if err != nil {
			t.Fatal(err)
		}
		var ran []string
		model := filepath.Join(p.dir, "model")
		for _, s := range summary.Stages {
			ran = append(ran, s.Name+" "+s.Mode+" "+s.Algorithm)
			if s.Mode != "bench" && s.Steps != 4 {
				t.Errorf("stage %s made %d steps, want the 4 of all stages", s.Name, s.Steps)
			}
			if begins := "r/" + s.Name + ": mode " + s.Mode + ", algorithm " + s.Algorithm + ", model " +
				"" + model + ";"; !strings.Contains(said.String(), begins) {
				t.Errorf("want %q in\n%s", begins, &said)
			}
			model = cmp.Or(s.Model, model)
		}
		if got := strings.Join(ran, ", "); got != want {
			t.Errorf("ran %s, want %s", got, want)
		}
		if dir := filepath.Join(p.dir, "checkpoints", "rollouts.jsonl"); yaml == exploringStages && len(experiences(t, dir)) != 4*3*4 {
			t.Error("the rollouts that the second stage learns from are not those of the first")
		}
	}
}

// An explorer works for one stage. It waits until the trainer reaches the stage, and goes on after
// kills. The stages end as in one process.
func TestAnExplorerJoinsAStage(t *testing.T) {
	one := newProject(t, tiny, learningStages)
	counts := filepath.Join(t.TempDir(), "hits.json")
	one.start(t, []string{childHits + "=" + counts, failpoint.Variable + "=trainer.save=force"}).finish(t)
	var hits map[string]int64
	if err := json.Unmarshal([]byte(read(t, counts)), &hits); err != nil {
		t.Fatal(err)
	}
	afterStep2 := fmt.Sprintf("%s=trainer.saved=kill@%d", failpoint.Variable, hits["trainer.saved"]-1) // the last is after step 4
	for _, name := range []string{"in the run's directory", "by URL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := one.copyOf(t)
			port, at, explores := freePort(t), p, []string{childStage + "=grpo"}
			if name == "by URL" {
				at = one.copyOf(t)
				explores = append(explores, "TRINITY_TOKEN=of the test", childJoin+"=http://127.0.0.1:"+port)
			}
			trains := []string{"stages.2.mode=train", "stages.2.trainer.total_steps=4", "trainer.listen_address=127.0.0.1:" + port}
			explorer := at.start(t, explores, "stages.2.mode=explore")
			if !p.start(t, []string{"TRINITY_TOKEN=of the test", afterStep2}, trains...).killedWithin(t, 0) {
				t.Error("the trainer was not killed")
			}
			if explorer.signalWhen(t, os.Kill, after(0)) { // it waits for the trainer
				explorer = at.start(t, explores, "stages.2.mode=explore")
			}
			p.start(t, []string{"TRINITY_TOKEN=of the test"}, trains...).finish(t)
			explorer.finish(t)
			if at != p && exists(filepath.Join(at.job(), "grpo", "stage_done.json")) {
				t.Error("an explorer marks a stage as finished")
			}
			got, want := results(t, filepath.Join(p.job(), "grpo")), results(t, filepath.Join(one.job(), "grpo"))
			for _, r := range []result{got, want} {
				maps.DeleteFunc(r.files, func(name, _ string) bool { return filepath.Base(name) == "state.json" }) // says whether a sampler is attached
			}
			if at != p { // whose metrics are its own
				maps.DeleteFunc(want.curves, func(name string, _ []entry) bool { return strings.HasSuffix(name, " explorer") })
			}
			got.sameAs(t, want)
		})
	}
}

func TestWrongStageOptionsAreErrors(t *testing.T) {
	p := newProject(t, tiny, learningStages)
	for _, c := range []struct {
		opts  run.Options
		texts []string
	}{
		{run.Options{Join: "http://127.0.0.1:1"}, []string{"--join: ", "has the stages sft, dpo, grpo, score",
			"with --stage, and set its mode to explore or serve"}},
		{run.Options{Stage: "none"}, []string{"--stage none: the stages of ", "are sft, dpo, grpo, score"}},
		{run.Options{Stage: "grpo"}, []string{"--stage grpo: it starts from the model of stage dpo, which is not finished: run that stage " +
			"first"}},
		{run.Options{Stage: "sft", Join: "http://127.0.0.1:1"},
			[]string{"stage sft: --join: mode train joins no trainer: set mode to explore or serve"}},
	} {
		c.opts.Say = func(string) {}
		_, err := run.Run(t.Context(), t.Context(), p.load(t), c.opts)
		oneLine(t, err, c.texts...)
	}
}

// A changed key of a finished stage is refused, whichever stage it is; paths and intervals that
// decide nothing may change.
func TestAFinishedStageRefusesChanges(t *testing.T) {
	p := newProject(t, tiny, exploringStages)
	again := func(overrides ...string) error {
		_, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...), run.Options{Say: func(string) {}})
		return err
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ override, want string }{
		{"stages.1.algorithm.optimizer.lr=0.5", ": stages.1.algorithm.optimizer.lr: is 0.5 and was 0.002, and the stage is finished"},
		{"stages.0.buffer.batch_size=4", ": stages.0.buffer.batch_size: is 4 and was 3, and the stage is finished"},
		{"seed=4", "seed: is 4 and was 3"},
	} {
		if err := again(c.override); err == nil {
			t.Errorf("%s was ignored", c.override)
		} else {
			oneLine(t, err, c.want, "--anew", "name=NEW")
		}
	}
	if err := again("trainer.max_checkpoints_to_keep=1"); err != nil {
		t.Error(err)
	}
}

// The last stage of a finished run resumes with more steps, like a run without stages.
func TestTheLastStageIsExtended(t *testing.T) {
	p := newProject(t, tiny, exploringStages)
	do := func(overrides ...string) *run.Summary {
		t.Helper()
		summary, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...), run.Options{Say: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		return summary
	}
	short := do().Stages[1]
	const more = "stages.1.buffer.total_steps=6"
	if longer := do(more).Stages; !longer[0].Skipped || longer[1].Skipped || longer[1].Steps != 6 || len(longer[1].Losses) != 6 ||
		!slices.Equal(longer[1].Losses[:4], short.Losses) {
		t.Errorf("with two more steps: %d steps, losses %v after %v", longer[1].Steps, longer[1].Losses, short.Losses)
	}
	if again := do(more).Stages[1]; !again.Skipped || again.Steps != 6 || len(again.Losses) != 6 {
		t.Errorf("run again: %d steps, losses %v", again.Steps, again.Losses)
	}
	_, err := run.Run(t.Context(), t.Context(), p.load(t, "stages.0.buffer.total_steps=9"), run.Options{Say: func(string) {}})
	oneLine(t, err, "stages.0.buffer.total_steps: is 9", "and the stage is finished")
}

// The summary of a finished run has what its metrics tell.
func TestFinishedStagesAreSummarised(t *testing.T) {
	p := newProject(t, tiny, exploringStages)
	var got [2]*run.Summary
	for i := range got {
		var err error
		if got[i], err = run.Run(t.Context(), t.Context(), p.load(t), run.Options{Say: func(string) {}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, was := range got[0].Stages {
		is := got[1].Stages[i]
		if !is.Skipped || is.Algorithm != was.Algorithm || is.Checkpoint != was.Checkpoint || len(was.Losses)+len(was.Rewards) == 0 ||
			!slices.Equal(is.Losses, was.Losses) || !slices.Equal(is.Rewards, was.Rewards) || is.Sampled > 0 != (was.Sampled > 0) {
			t.Errorf("stage %s is summarised as skipped %t, algorithm %q, checkpoint %q, losses %v, rewards %v",
				was.Name, is.Skipped, is.Algorithm, is.Checkpoint, is.Losses, is.Rewards)
		}
	}
}

// A run with stages that must not resume begins all of them anew, in one directory.
func TestStagesBeginAnew(t *testing.T) {
	p := newProject(t, tiny, fewSteps)
	for i, overrides := range [][]string{nil, {"continue_from_checkpoint=false"}} {
		summary, err := run.Run(t.Context(), t.Context(), p.load(t, overrides...), run.Options{Say: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		done, err := filepath.Glob(filepath.Join(p.job()+"*", "*", "stage_done.json"))
		if err != nil || len(done) != 2*(i+1) || summary.Stages[0].Skipped || summary.Stages[1].Skipped {
			t.Errorf("after run %d: %v finished stages, %v, %+v", i, done, err, summary.Stages)
		}
	}
}

// A second process of a run with stages is refused before any of them, also if the first process is between
// two stages: otherwise the two would do the stages by turns, each with its own configuration.
func TestASecondProcessOfStagesIsRefused(t *testing.T) {
	p := newProject(t, tiny, learningStages)
	first := p.start(t, []string{failpoint.Variable + "=*=sleep"})
	if !first.await(t, p.appears("sft")) {
		t.Fatal("the first process has ended")
	}
	p.start(t, nil, "seed=9").fails(t, p.job()+" has the ", fmt.Sprintf("of process %d on ", first.cmd.Process.Pid))
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.done
}
