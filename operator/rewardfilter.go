package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("reward_filter",
		"Keeps experiences with a valid reward of at least `threshold`. Metric: filtered_count.",
		func() trinity.Operator { return &rewardFilter{} })
}

// rewardFilter drops experiences of low reward.
//
// Unlike Trinity-RFT: an experience without a valid reward is dropped and is no error.
type rewardFilter struct {
	Threshold float64 `yaml:"threshold" doc:"the lowest reward to keep"`
}

// Process implements trinity.Operator.
func (f *rewardFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, metrics := keep(groups, func(e *trinity.Experience) bool { return scored(e) && e.Reward.Value >= f.Threshold })
	return kept, metrics, nil
}
