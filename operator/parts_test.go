package operator

import (
	"math"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
)

// judged returns a group whose rollouts have a judgement and then a reply, with these rewards.
func judged(judgements, replies trinity.Group) (g trinity.Group) {
	for i, judgement := range judgements {
		reply := replies[i]
		judgement.Part, judgement.Reward.Parts = "judge", map[string]float64{"agreement": judgement.Reward.Value}
		reply.ID.Turn = 1
		g = append(g, judgement, reply)
	}
	return g
}

// Operators that compare within a group compare judgements with judgements and replies with replies.
func TestOperatorsCompareParts(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    args
		in      trinity.Group
		want    []float64
		metrics trinity.Metrics
	}{
		{"reward_std_filter", nil, judged(group(0.5, 0.5), group(0, 1)), []float64{0, 1}, trinity.Metrics{
			"filtered_count": 2, "origin_group_advantages/reward_mean/mean": 0.5, "origin_group_advantages/judge_reward_std/max": 0}},
		{"reward_std_filter", nil, judged(group(0.5, 0.7), group(1, 1)), []float64{0.5, 0.7}, trinity.Metrics{"filtered_count": 2}},
		{"dapo_dynamic_sampling", nil, judged(group(0.5, 0), group(1, 1)), []float64{0.5, 0}, trinity.Metrics{
			"filtered_count": 2, "dropped_all_correct": 2}},
		{"balance_filter", nil, judged(group(0.5, 0.6, 0.7), group(1, 0, 1)), []float64{0.5, 1, 0.6, 0, 0.7}, trinity.Metrics{
			"filtered_count": 1, "balanced_group_count": 1}},
		{"top_k_filter", args{"k": 1}, judged(group(0.5, 0.6), group(4, 3)), []float64{4, 0.6}, trinity.Metrics{
			"filtered_count": 2, "top_k_reward_threshold": 4, "judge_top_k_reward_threshold": 0.6}},
		{"top_k_filter", args{"k": 1, "scope": "step"}, judged(group(0.5, 0.6), group(4, 3)), []float64{4, 0.6}, nil},
		{"response_deduplicator", nil, judged(saying(group(0.5, 0.6), "a", "b"), saying(group(4, 3), "c", "c")), []float64{0.5, 4, 0.6},
			trinity.Metrics{"filtered_count": 1, "unique_response_ratio": 0.75}},
		{"pass_rate_calculator", nil, judged(group(0.5, 0.5), group(1, 1)), []float64{0.5, 1, 0.5, 1}, trinity.Metrics{
			"selection/<1_ratio": 0, "selection/>0_ratio": 1}},
		{"expr_filter", args{"condition": `reward > group.mean and part == ""`}, judged(group(9, 9), group(0, 1)), []float64{1}, nil},
		{"expr_mapper", args{"reward": "group.size"}, judged(group(9, 9), group(0, 1)), []float64{2, 2, 2, 2}, nil},
	} {
		kept, metrics, err := build(t, c.name, c.args).Process(t.Context(), groups{c.in})
		if err != nil || len(kept) != 1 || !slices.Equal(values(kept)[0], c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, values(kept), err, c.want)
		}
		for name, want := range c.metrics {
			if got, ok := metrics[name]; !ok || math.Abs(got-want) > 1e-12 {
				t.Errorf("%s: %s is %v (%t), want %v", c.name, name, got, ok, want)
			}
		}
	}
}
