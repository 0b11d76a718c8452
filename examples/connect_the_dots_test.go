package examples

import (
	"testing"

	"github.com/trinity-go/trinity/trinitytest"
)

const connectTheDots = "connect_the_dots/connect_the_dots.yaml"

// Packs run through: a rollout solves three tasks and writes hints between them.
func TestConnectTheDotsRuns(t *testing.T) {
	records := runExample(t, connectTheDots, "stages.0.buffer.total_steps=2", "stages.1.buffer.total_steps=2",
		"stages.1.buffer.batch_size=6", "stages.1.algorithm.repeat_times=2", "stages.1.explorer.eval_interval=2",
		"stages.1.buffer.explorer_input.eval_tasksets.0.repeat_times=1")
	for _, name := range []string{"eval/packs/reward_pos_0/mean@1", "eval/packs/reward_pos_2/mean@1", "rollout/hints_read/mean"} {
		if len(curve(records, name)) == 0 {
			t.Errorf("no metric %s", name)
		}
	}
}

// Later tasks of a pack are solved more often than the first, because the policy leaves itself hints.
func TestConnectTheDotsLearns(t *testing.T) {
	trinitytest.Long(t, "trains for minutes", "examples/connect_the_dots")
	records := runExample(t, connectTheDots)
	first, third := curve(records, "eval/packs/reward_pos_0/mean@8"), curve(records, "eval/packs/reward_pos_2/mean@8")
	if last(third) < third[0]+0.05 || last(third) < last(first)+0.2 {
		t.Errorf("third tasks solved rose from %.3f to %.3f, and first ones are at %.3f; want 0.05 more, and 0.2 above the first",
			third[0], last(third), last(first))
	}
}
