package run_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

// replay returns the overrides that turn replay on.
func replay(settings string) []string {
	return []string{"buffer.trainer_input.experience_buffer.replay_buffer={enable: true, " + settings + "}"}
}

// A model learns from rewards if it gets new weights during rollouts and trains on each group up to
// three times.
func TestAModelLearnsFromReplay(t *testing.T) {
	trinitytest.Long(t, "trains a model", "internal/run", "buffer", "internal/trainer", "internal/explorer")
	t.Parallel()
	yaml := strings.NewReplacer("WARMBATCH", "64", "WARMSTEPS", "80", "WARMSAVE", "80", "RLLR", "2e-3", "RLBATCH", "32", "RLSTEPS",
		"30", "RLSAVE", "30", "RLMINI", "64",
		"WORKFLOW", "simple_workflow", "REWARDARGS", "{pattern: "+
			"'<answer>(?P<answer>[0-9])</answer>'}", "REWARD", "pattern_reward").Replace(staged)
	p := newProject(t, 2, yaml)
	_, err := p.run(t, "synchronizer.sync_style=fully_async", "stages.1.trainer={total_steps: 60}",
		"stages.1."+replay("priority_fn: decay_limit_randomization, reuse_cooldown_time: 0, priority_fn_args: {sigma: 2}")[0])
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(p.job(), "rl")
	uses := curve(t, job, "trainer", "sample/use_count/max")
	if slices.Max(uses) < 2 || slices.Max(uses) > 3 {
		t.Errorf("groups were used %v times, want 2 or 3 at most", uses)
	}
	accuracy := curve(t, job, "explorer", "rollout/accuracy/mean")
	t.Logf("%d train steps, accuracy %.3f", len(uses), accuracy)
	if first, last := mean(accuracy[:3]), mean(accuracy[len(accuracy)-5:]); last < 0.9 || last < first+0.15 {
		t.Errorf("accuracy rose from %.3f to %.3f, want at least 0.9 and 0.15 more", first, last)
	}
}
