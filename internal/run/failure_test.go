package run_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("test_troubled", "Asks the question, but the first rollout of each task has a trouble.",
		func() trinity.Workflow { return &troubled{} })
	registry.Samplers.Register("test_failing", "The embedded engine's sampler, which fails.",
		func() engine.SamplerOpener { return &failing{} })
	registry.Trainers.Register("test_failing", "The embedded engine, beside a sampler that fails.",
		func() engine.TrainerOpener { trainer, _ := registry.Trainers.Build("cpu"); return trainer })
}

const noEvaluation = "buffer.explorer_input.eval_tasksets=[]"

// troubled gives every reply the reward 1.
type troubled struct {
	Trouble string `yaml:"trouble" doc:"error, panic, hang, late, or all: every rollout fails"`
}

func (w *troubled) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	if r.Model.ID.Run == 0 && w.Trouble != "late" || w.Trouble == "all" {
		switch w.Trouble {
		case "panic":
			panic("a broken tool")
		case "hang":
			<-ctx.Done()
			return nil, context.Cause(ctx)
		default:
			return nil, errors.New("a broken tool")
		}
	}
	e, err := r.Model.Chat(ctx, []trinity.Message{{Role: "user", Content: fmt.Sprint(r.Task.Row["question"])}}, nil)
	if err != nil {
		return nil, err
	}
	if r.Model.ID.Run == 0 && w.Trouble == "late" {
		return nil, errors.New("a broken tool")
	}
	e.Reward = trinity.NewReward(map[string]float64{"accuracy": 1})
	return []*trinity.Experience{e}, nil
}

// A failed rollout is data: the run retries it, reports it and leaves it out. It never becomes
// reward 0.
func TestFailedRolloutsAreAbsent(t *testing.T) {
	for trouble, want := range map[string]string{"error": "a broken tool", "panic": "workflow panicked: a broken tool",
		"hang": "explorer.max_timeout of 3s passed"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			limit := "explorer.max_timeout=60"
			if trouble == "hang" { // within which the rollouts beside it end, on a slow machine
				limit = "explorer.max_timeout=3"
			}
			_, err := p.run(t, "buffer.total_steps=2", noEvaluation, limit, "explorer.max_retry_times=1",
				"buffer.explorer_input.taskset.default_workflow_type=test_troubled", "buffer.explorer_input.taskset.workflow_args={trouble: "+
					trouble+"}")
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]float64{
				"rollout/failed_run_count": 3, "rollout/retry_count": 3, "rollout/finished_task_count": 3, "rollout/reward/min": 1,
				"experience_pipeline/experience_count": 9,
			} {
				if got := curve(t, p.job(), "explorer", name); len(got) != 2 || got[0] != want || got[1] != want {
					t.Errorf("%s is %v, want %v in both steps", name, got, want)
				}
			}
			log := read(t, filepath.Join(p.job(), "log", "failed_rollouts.log"))
			if strings.Count(log, want) != 6 || !strings.Contains(log, "task digits/") || !strings.Contains(log, "run 0") {
				t.Errorf("the log of failed rollouts does not say %q six times, with task and run:\n%s", want, log)
			}
		})
	}
}

// If all rollouts of several steps fail, the run ends: the workflow is wrong, not a task.
func TestStepsWithoutAnyRolloutEndTheRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, "buffer.explorer_input.taskset.default_workflow_type=test_troubled",
		"buffer.explorer_input.taskset.workflow_args={trouble: all}")
	oneLine(t, err, "explorer step 3", "all 12 rollouts of this step failed", ", as did those of the 2 steps before; ", "a broken tool")
}

// A run logs each rollout without a valid reward, with the reason. Several steps without any valid
// reward end it.
func TestStepsWithoutAnyRewardEndTheRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, noEvaluation, "buffer.explorer_input.default_reward_fn_type=test_unable",
		"buffer.total_steps=5", "trainer.save_interval=1")
	oneLine(t, err, "explorer step 3", "no valid reward, as did those of the 2 steps before; the first: "+
		"task digits/")
	log := read(t, filepath.Join(p.job(), "log", "failed_rollouts.log"))
	if n := strings.Count(log, "no valid reward: "); n != 3*12 {
		t.Errorf("%d of %d rollouts are in the log:\n%s", n, 3*12, log)
	}
	if !exists(filepath.Join(p.job(), "global_step_1")) {
		t.Error("the checkpoint of step 1 is missing")
	}
}

// If the operators filter out every group, the steps are empty, and neither side waits for the
// other.
func TestFilteredStepsAreEmpty(t *testing.T) {
	for name, overrides := range map[string][]string{
		"synchronous":   nil,
		"interval 3":    {"synchronizer.sync_interval=3"},
		"offset 1":      {"synchronizer.sync_offset=1"},
		"backlog":       {"buffer.train_batch_size=8", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=4"},
		"no evaluation": {noEvaluation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, tiny, rl)
			c := p.start(t, nil, append(fields(overrides), "algorithm.advantage_fn_args={std_threshold: 1e9}", "synchronizer.sync_timeout=60")...)
			c.finish(t)
			for name, want := range map[string]float64{"experience_pipeline/experience_count": 0, "experience_pipeline/filtered_count": 12} {
				got := curve(t, p.job(), "explorer", name)
				if len(got) != 8 || got[0] != want || got[7] != want {
					t.Errorf("%s is %v, want %v in each of 8 steps", name, got, want)
				}
			}
			if got := curve(t, p.job(), "trainer", "actor/grad_norm"); len(got) != 0 {
				t.Errorf("the trainer had nothing to train on, and yet there were gradients: %v", got)
			}
			if !exists(filepath.Join(p.job(), "global_step_*", "run.json")) {
				t.Error("there is no checkpoint")
			}
		})
	}
}

// failing opens the embedded engine's sampler and breaks it after some requests.
type failing struct{ engine.SamplerOpener }

func (f *failing) PlanMemory(engine.SamplerSpec) ([]engine.MemoryPart, error) { return nil, nil }

func (f *failing) OpenSampler(ctx context.Context, spec engine.SamplerSpec) (trinity.Sampler, error) {
	opener, err := registry.Samplers.Build("cpu")
	if err != nil {
		return nil, err
	}
	s, err := opener.OpenSampler(ctx, spec)
	return &failingSampler{Sampler: s}, err
}

type failingSampler struct{ trinity.Sampler }

func (s *failingSampler) Sample(ctx context.Context, p trinity.Prompt, params trinity.SamplingParams) ([]trinity.Completion, error) {
	got, err := s.Sampler.Sample(ctx, p, params)
	if err == nil && got[0].Versions[1] == 2 {
		return nil, errors.New("out of memory")
	}
	return got, err
}

// A failed engine ends the run, at once and with one line.
func TestAFailedEngineEndsTheRun(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := p.run(t, "trainer.trainer_type=test_failing", "explorer.rollout_model.engine_type=test_failing")
	oneLine(t, err, "explorer step 3", "engine", "out of memory")
	if got := curve(t, p.job(), "explorer", "rollout/failed_run_count"); len(got) != 2 || got[1] != 0 {
		t.Errorf("failed rollouts of the steps before are %v; a failed engine is none", got)
	}
}

// oneLine checks that an error is one short line with all the texts.
func oneLine(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not say %q: %v", text, err)
		}
	}
}

// Sequences that are longer than the model has positions for are an error before the run, not
// failed rollouts.
func TestSequencesBeyondThePositionsAreRefused(t *testing.T) {
	p := newProject(t, tiny, rl)
	_, err := settle.Facts(p.load(t, "model.max_prompt_tokens=100000").Settled()[0])
	oneLine(t, err, ": model.max_model_len: is 1000", "has positions for")
	cfg := p.load(t)
	*cfg.Model.MaxModelLen = 100000
	_, err = settle.Facts(cfg.Settled()[0])
	oneLine(t, err, p.config+":", ": model.max_model_len: is 100000", "has positions for")
}

// A missing dataset is an error before the run downloads anything or begins a stage. The run does
// not ask a hub for a name that looks like a file.
func TestMissingDatasetsAreFoundFirst(t *testing.T) {
	for _, path := range []string{"nowhere.jsonl", "data/nowhere.parquet", "nowhere.json.gz", "org/nowhere.csv"} {
		p := newProject(t, tiny, strings.NewReplacer("DIR/train.jsonl", path, "DIR/model", "nobody/no-such-model").Replace(rl))
		summary, err := run.Run(t.Context(), t.Context(), p.load(t), run.Options{Say: func(line string) { t.Error(line) }})
		oneLine(t, err, p.config+":", ": buffer.explorer_input.taskset.path: dataset "+path+": no such file or directory")
		if len(summary.Stages) != 0 {
			t.Errorf("%d stages began", len(summary.Stages))
		}
	}
}

// A stage that fails before it begins is not in the closing table.
func TestAStageThatDoesNotBeginIsInNoTable(t *testing.T) {
	p := newProject(t, tiny, rl)
	write(t, filepath.Join(p.dir, "train.jsonl"), "{")
	summary, err := p.run(t)
	if err == nil || len(summary.Stages) != 0 {
		t.Errorf("%v, and %d stages", err, len(summary.Stages))
	}
}

// Parts of an algorithm that do not fit together are an error before the first stage begins and
// before any download. The error names their place in the file.
func TestAlgorithmsAreCheckedBeforeTheFirstStage(t *testing.T) {
	text := strings.NewReplacer("WARMBATCH", "8", "WARMSTEPS", "4", "WARMSAVE", "2", "RLLR", "2e-3", "RLBATCH", "2", "RLSTEPS", "4",
		"RLSAVE", "1", "RLMINI", "8",
		"REWARDARGS", "{}", "WORKFLOW", "simple_workflow", "REWARD", "test_even", "kl_loss_fn: none", "kl_loss_fn: none, policy_loss_fn: "+
			"dpo", "DIR/model", "nobody/no-such-model").Replace(staged)
	p := newProject(t, tiny, text)
	_, err := run.Run(t.Context(), t.Context(), p.load(t), run.Options{Say: func(line string) { t.Error(line) }})
	oneLine(t, err, ":25:", "algorithm.policy_loss_fn: dpo learns from data of schema dpo")
	if _, err := os.Stat(filepath.Join(p.dir, "checkpoints")); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}
