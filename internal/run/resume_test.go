package run_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// fewSteps are two stages of four steps each.
var fewSteps = strings.NewReplacer("WARMBATCH", "8", "WARMSTEPS", "4", "WARMSAVE", "2", "RLLR", "2e-3", "RLBATCH", "2", "RLSTEPS",
	"4", "RLSAVE", "1", "RLMINI", "8",
	"WORKFLOW", "simple_workflow", "REWARDARGS", "{}", "REWARD", "test_even").Replace(staged)

// A run that is killed at any moment and started again ends with the bytes of a run that was never
// killed.
func TestKilledRunsEndWithTheSameBytes(t *testing.T) {
	for _, c := range []struct {
		name, yaml string
		overrides  []string
		files      []string // the run is killed when one of them appears
	}{
		{"grpo", rl, nil, []string{".writing_global_step_2", "global_step_4", ".writing_global_step_8/engine/state.safetensors",
			"global_step_8"}},
		{"sft", sft, nil, []string{"global_step_2", ".writing_global_step_6", "latest_checkpointed_iteration.txt"}},
		{"lora", rl, []string{"model.lora_configs=[{lora_rank: 4, lora_alpha: 8, target_modules: all-linear}]",
			"algorithm.kl_loss_fn=k2"}, []string{"global_step_2", "global_step_6"}},
		{"two tasksets and a curriculum", blended, nil, []string{"global_step_2", ".writing_global_step_6"}},
		{"interval 3", rl, []string{"synchronizer.sync_interval=3"}, []string{"global_step_2", "global_step_4"}},
		{"trainer's interval 2", rl, []string{"synchronizer.trainer_sync_interval=2", "synchronizer.explorer_sync_interval=2",
			"trainer.save_interval=1"}, []string{"global_step_1", "global_step_3"}},
		{"offset 1", rl, []string{"synchronizer.sync_offset=1"}, []string{"global_step_2", "global_step_6"}},
		{"database", rl, append(inDatabase, "synchronizer.sync_offset=1"), []string{"global_step_4", ".writing_global_step_6"}},
		{"backlog", rl, []string{"buffer.train_batch_size=8", "trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=4"},
			[]string{"global_step_4", "global_step_8"}},
		{"demonstrations mixed in", mixed, nil, []string{"global_step_2", "global_step_6"}},
		{"stale rollouts", rl, []string{"algorithm.sample_strategy=staleness_control", "algorithm.sample_strategy_args.max_staleness=2",
			"synchronizer.sync_interval=3"}, []string{"global_step_4"}},
		{"replay", rl, append(replay("reuse_cooldown_time: 0, priority_fn: decay_limit_randomization, priority_fn_args: {decay: 0.2, "+
			"sigma: 2}"), "buffer.train_batch_size=16",
			"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=8", "synchronizer.sync_offset=1"),
			[]string{"global_step_2", "global_step_6"}},
		{"dpo", strings.ReplaceAll(onDataset, "ALGORITHM", "dpo"), nil,
			[]string{"global_step_4", ".writing_global_step_12"}}, // past the first epoch, of 9 steps
		{"reward model", strings.NewReplacer("ALGORITHM.jsonl", "dpo.jsonl", "ALGORITHM", "bradley_terry").Replace(onDataset), nil,
			[]string{"global_step_4", ".writing_global_step_12"}},
		{"kto", strings.ReplaceAll(onDataset, "ALGORITHM", "kto"),
			[]string{"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=4"}, []string{"global_step_6"}},
		{"packed text", strings.ReplaceAll(onDataset, "ALGORITHM", "cpt"),
			[]string{"buffer.trainer_input.experience_buffer.format.packing=true"}, []string{"global_step_2", "global_step_10"}},
		{"critic", rl, withCritic, []string{".writing_global_step_2/critic", "global_step_4", ".writing_global_step_6/engine"}},
		{"stages", fewSteps, nil, []string{"warmup/global_step_2", "warmup/stage_done.json", "rl/global_step_2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			whole := newProject(t, tiny, c.yaml)
			overrides := fields(c.overrides)
			begin := time.Now()
			whole.start(t, nil, overrides...).finish(t)
			took := time.Since(begin)
			want := results(t, whole.dir)

			killed := whole.copyOf(t)
			rng := rand.New(rand.NewPCG(uint64(len(c.name)), 1))
			kills := 0
			kill := func(due func() bool) {
				if killed.start(t, nil, overrides...).signalWhen(t, os.Kill, due) {
					kills++
				}
			}
			if killed.killedAt(t, "trainer.save=kill", overrides...) { // whatever the machine does meanwhile
				kills++
			}
			for _, file := range c.files {
				kill(killed.appears(file))
				kill(after(time.Duration(rng.Float64() * float64(took))))
			}
			killed.start(t, nil, overrides...).finish(t)
			if kills == 0 {
				t.Error("the run was never killed")
			}
			t.Logf("%d kills", kills)
			results(t, killed.dir).sameAs(t, want)
		})
	}
}

// Two runs of the same seeds are the same, whatever the number of cores.
func TestCoresDoNotChangeTheResult(t *testing.T) {
	one := newProject(t, 2, rl)
	two := one.copyOf(t)
	one.start(t, []string{"GOMAXPROCS=1"}).finish(t)
	two.start(t, []string{"GOMAXPROCS=2"}).finish(t)
	results(t, two.dir).sameAs(t, results(t, one.dir))
}

// An interrupted run saves a checkpoint, says why it ended, and resumes to the same result.
func TestInterruptedRunsResume(t *testing.T) {
	for _, c := range []struct {
		name      string
		overrides []string
	}{
		{"synchronous", nil},
		{"interval 3", []string{"synchronizer.sync_interval=3"}},
		{"offset 1", []string{"synchronizer.sync_offset=1"}},
		{"evaluation after every step", []string{"explorer.eval_interval=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			whole := newProject(t, tiny, rl)
			overrides := append(fields(c.overrides), "trainer.save_interval=0", "buffer.total_steps=24")
			whole.start(t, nil, overrides...).finish(t)

			stopped := whole.copyOf(t)
			stops := 0
			for range 3 {
				if stopped.start(t, nil, overrides...).signalWhen(t, os.Interrupt, stopped.trains(t)) {
					stops++
				}
			}
			stopped.start(t, nil, overrides...).finish(t)
			if stops == 0 {
				t.Error("the run was never interrupted")
			}
			t.Logf("%d interruptions", stops)
			results(t, stopped.dir).sameAs(t, results(t, whole.dir))
		})
	}
}

// fields returns a copy, so that parallel tests append to their own.
func fields(s []string) []string { return append([]string(nil), s...) }
