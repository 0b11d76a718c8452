package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("invalid_reward_filter",
		"Drops experiences without a valid, finite reward. Metric: filtered_count.",
		func() trinity.Operator { return &invalidRewardFilter{} })
}

// invalidRewardFilter drops experiences without a valid reward.
type invalidRewardFilter struct{}

// Process implements trinity.Operator.
func (*invalidRewardFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, metrics := keep(groups, scored)
	return kept, metrics, nil
}
