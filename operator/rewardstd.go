package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("reward_std_filter",
		"Drops groups whose rewards have a population standard deviation of at most `threshold`, and groups "+
			"with fewer than two valid rewards. Metrics: filtered_count (experiences); "+
			"origin_group_advantages/reward_mean and reward_std, each with mean, max and min over all groups "+
			"before the filter.",
		func() trinity.Operator { return &rewardStdFilter{} })
}

// rewardStdFilter drops groups with rewards that do not differ enough.
//
// Unlike Trinity-RFT: the metric operator_filtered_count is called filtered_count, as in the other
// filters; and an invalid reward is left out and is no error.
type rewardStdFilter struct {
	Threshold float64 `yaml:"threshold" range:"[0,inf]" doc:"the largest standard deviation (divisor n) to drop"`
}

// Process implements trinity.Operator.
func (f *rewardStdFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	metrics := trinity.Metrics{"filtered_count": 0}
	var kept []trinity.Group
	var means, stds []float64
	for _, g := range groups {
		r := rewards(g)
		if len(r) == 0 {
			metrics["filtered_count"] += float64(len(g))
			continue
		}
		std := populationStd(r)
		means, stds = append(means, mean(r)), append(stds, std)
		if len(r) < 2 || std <= f.Threshold {
			metrics["filtered_count"] += float64(len(g))
			continue
		}
		kept = append(kept, g)
	}
	summarize(metrics, "origin_group_advantages/reward_mean", means)
	summarize(metrics, "origin_group_advantages/reward_std", stds)
	return kept, metrics, nil
}
