package examples

import (
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/trace"
)

// between are the least and the greatest value that a metric may have.
type between [2]float64

func (b between) holds(v float64) bool { return b[0] <= v && v <= b[1] }

// Each configuration of examples/debugging shows the sign that the guide describes: the first and the
// last value of a metric tell it.
func TestDebuggingExamplesShowTheirSigns(t *testing.T) {
	fewer := []string{"stages.0.buffer.total_steps=20", "stages.1.buffer.total_steps=3"}
	zero, one := between{0, 0}, between{1, 1}
	for name, c := range map[string]struct {
		overrides []string
		signs     map[string][2]between
	}{
		"length_collapse": {nil, map[string][2]between{
			"rollout/response_length/mean": {{15, 16}, {1, 2}}, "rollout/reward/mean": {{-0.11, -0.09}, {0.05, 0.11}},
		}},
		"zero_variance":  {nil, map[string][2]between{"rollout/equal_reward_share": {one, one}, "actor/grad_norm": {zero, zero}}},
		"clipped":        {[]string{"buffer.total_steps=1"}, map[string][2]between{"actor/pg_clipfrac": {{0.6, 1}, {0.6, 1}}}},
		"disagreement":   {[]string{"buffer.total_steps=2"}, map[string][2]between{"rollout_corr/rollout_is_max": {{1.02, 2}, {1.02, 2}}}},
		"stale":          {[]string{"buffer.total_steps=11"}, map[string][2]between{"rollout/model_version": {zero, {10, 10}}}},
		"failing_reward": {[]string{"buffer.total_steps=2"}, map[string][2]between{"rollout/invalid_reward_count": {{30, 100}, {30, 100}}}},
		"truncated": {fewer, map[string][2]between{
			"rollout/truncated_count": {{100, 128}, {100, 128}}, "rollout/reward/mean": {zero, zero}}},
		"no_tool_calls": {fewer, map[string][2]between{"rollout/tool_call_rate/mean": {zero, zero}, "rollout/turns/mean": {one, one}}},
		"entropy_collapse": {nil, map[string][2]between{
			"actor/entropy_loss": {{5, 6}, {0, 0.1}}, "rollout/equal_reward_share": {{0, 0.6}, {0.8, 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			records := runExample(t, filepath.Join("debugging", name+".yaml"), c.overrides...)
			for metric, want := range c.signs {
				got := curve(records, metric)
				if len(got) == 0 || !want[0].holds(got[0]) || !want[1].holds(got[len(got)-1]) {
					t.Errorf("%s is %.4g, want it to begin within %v and to end within %v", metric, got, want[0], want[1])
				}
			}
		})
	}
}

// Where a trainer waits, the spans of each step name for whom, and have every call of the reward function.
func TestDebuggingExampleHasAWaitingTrainer(t *testing.T) {
	t.Chdir("..")
	dir := t.TempDir()
	runExampleIn(t, dir, "debugging/waiting_trainer.yaml", "buffer.total_steps=2", "buffer.batch_size=2")
	spans, err := trace.ReadSpans(filepath.Join(dir, "trinity-examples", "waiting_trainer", "trace"))
	if err != nil {
		t.Fatal(err)
	}
	waits, rewards := map[string]int{}, 0
	for _, s := range spans {
		switch {
		case s.Role == "trainer" && s.Kind == trinity.SpanWait:
			waits[s.For]++
		case s.Kind == trinity.SpanReward:
			rewards++
		}
	}
	if len(waits) != 1 || waits["explorer"] != 2*2 || rewards != 2*2*8 {
		t.Errorf("the trainer waits %v times and the reward function is called %d times, want 2 waits a step for the explorer, "+
			"for its experiences and before the weights change, and 32 calls", waits, rewards)
	}
}
