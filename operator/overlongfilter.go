package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("overlong_filter",
		"Drops experiences whose response hit a length limit, so that they count in no statistic of their "+
			"group. In contrast, mask_response_truncated keeps their rewards and only excludes their tokens from "+
			"the loss. Metric: filtered_count.",
		func() trinity.Operator { return &overlongFilter{} })
}

// overlongFilter drops truncated responses.
type overlongFilter struct {
	Prompts bool `yaml:"drop_truncated_prompts" doc:"also drop experiences with a truncated prompt"`
}

// Process implements trinity.Operator.
func (f *overlongFilter) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	kept, metrics := keep(groups, func(e *trinity.Experience) bool {
		return e.Truncated != trinity.ResponseTruncated && !(f.Prompts && e.Truncated == trinity.PromptTruncated)
	})
	return kept, metrics, nil
}
