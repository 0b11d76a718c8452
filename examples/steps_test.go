package examples

import (
	"fmt"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// On runs of several steps: what an algorithm should learn from it does, whichever steps are rewarded and whatever their number, and from what it
// does not look at it learns nothing.
func TestStepsLearn(t *testing.T) {
	trinitytest.Long(t, "trains eight models", trained...)
	t.Chdir("..")
	model := warmUp(t)
	for _, c := range []struct {
		name, algorithm, workflow string
		args                      string // of the advantage
		learns                    bool
		check                     func(*testing.T, []trinity.Record)
	}{
		{"the outcome of a run", "multi_step_grpo", "test_ladder", "{}", true, checkLadder},
		{"rewards of steps and outcomes", "gigpo", "test_ladder", "{}", true, checkLadder},
		{"rewards of steps alone", "gigpo", "test_toll", "{gamma: 0.5}", true, checkToll},
		{"no rewards of steps", "gigpo", "test_toll", "{gamma: 0.5, omega: 0}", false, checkToll},
		{"an outcome of chance", "multi_step_grpo", "test_toll", "{}", false, nil},
		{"the outcome of a pack", "cod", "test_pack", "{}", true, nil},
		{"what came after a hint", "cod", "test_pack", "{iterative_hint_e2e_causal: true}", true, nil},
		{"a hint's own reward", "cod", "test_pack", "{iterative_hint_e2e_causal: true, e2e_causal_returns_style: discounted, e2e_causal_returns_gamma: 0}", false, nil},
	} {
		t.Run(c.algorithm+" "+c.name, func(t *testing.T) {
			t.Parallel()
			const tasks, steps = 16, 8
			records := model.learn(t, c.algorithm, fmt.Sprintf("steps %s %s", c.algorithm, c.name),
				fmt.Sprint("stages.1.buffer.batch_size=", tasks), fmt.Sprint("stages.1.buffer.total_steps=", steps),
				"stages.1.buffer.explorer_input.default_workflow_type="+c.workflow, "stages.1.algorithm.advantage_fn_args="+c.args)
			after, greedy := evaluated(t, records)
			t.Logf("accuracy %.3f to %.3f, greedy %.3f; in runs %.2f", model.sampled, after, greedy, curve(records, "rollout/right/mean"))
			if c.learns && after < model.sampled+0.15 {
				t.Errorf("accuracy over 400 replies went from %.3f to %.3f, want 0.15 more", model.sampled, after)
			}
			if !c.learns && after > model.sampled+0.1 {
				t.Errorf("accuracy over 400 replies rose from %.3f to %.3f, and there was nothing to learn from", model.sampled, after)
			}
			// A train step takes all steps of the rollouts of its explore step, and no others.
			trained, all := curve(records, "critic/advantages/mean"), curve(records, "sample/task_count")
			if len(trained) != steps || len(all) != steps || slices.Min(all) != tasks || slices.Max(all) != tasks {
				t.Errorf("%d train steps have advantages, and read of %v tasks; want %d of %d tasks", len(trained), all, steps, tasks)
			}
			if few := slices.Min(curve(records, "experience_pipeline/experience_count")); few < 3*tasks*8*0.9 {
				t.Errorf("a step gave %v experiences, want three or more of each of %d rollouts", few, tasks*8)
			}
			if c.check != nil {
				c.check(t, records)
			}
		})
	}
}

// checkLadder: some rollouts were absent or without reward, with all their steps, and no step before the last lacked one.
func checkLadder(t *testing.T, records []trinity.Record) {
	t.Helper()
	failed, unscored := curve(records, "rollout/failed_run_count"), curve(records, "rollout/invalid_reward_count")
	if slices.Max(failed) == 0 || slices.Max(failed) > 16 || slices.Max(unscored) == 0 || slices.Max(unscored) > 16 {
		t.Errorf("%v rollouts failed and %v had no reward, want some in some steps, at most one a task", failed, unscored)
	}
	if left := curve(records, "experience_pipeline/invalid_count"); slices.Max(left) < 3*slices.Max(unscored) {
		t.Errorf("%v experiences were left out of %v runs without a reward, want all steps", left, unscored)
	}
}

// checkToll: of the two levels of GiGPO the runs' says nothing, and the steps' something.
func checkToll(t *testing.T, records []trinity.Record) {
	t.Helper()
	runs, steps := curve(records, "experience_pipeline/gigpo/mean_abs_A_E"), curve(records, "experience_pipeline/gigpo/mean_abs_A_S")
	if slices.Max(runs) != 0 || slices.Min(steps) < 0.05 {
		t.Errorf("mean |A^E| is %v, want 0; mean |A^S| is %v, want some", runs, steps)
	}
}
