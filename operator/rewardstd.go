package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("reward_std_filter",
		"Drops groups whose rewards have a population standard deviation of at most `threshold`, and groups "+
			"with fewer than two valid rewards. Each part of a group, such as judgements of its replies, is compared "+
			"and dropped apart. Metrics: filtered_count (experiences); origin_group_advantages/reward_mean and "+
			"reward_std, each with mean, max and min over all groups before the filter.",
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
	dropped, apart := selection{}, byPart(groups)
	means, stds := map[string][]float64{}, map[string][]float64{}
	for _, g := range apart {
		r, part := rewards(g), g[0].Part
		if len(r) > 0 {
			means[part], stds[part] = append(means[part], mean(r)), append(stds[part], populationStd(r))
		}
		if len(r) < 2 || populationStd(r) <= f.Threshold {
			dropped.add(g)
		}
	}
	kept, metrics := keep(groups, dropped.lacks)
	for part := range means {
		summarize(metrics, experience.MetricOf(part, "origin_group_advantages/reward_mean"), means[part])
		summarize(metrics, experience.MetricOf(part, "origin_group_advantages/reward_std"), stds[part])
	}
	return kept, metrics, nil
}
