package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("mask_response_truncated",
		"Excludes responses that hit a length limit from the loss (overlong filtering of DAPO, Yu et al. "+
			"2025, §3.4). They keep their reward and count in the statistics of their group. Metric: "+
			"masked_truncated_count.",
		func() trinity.Operator { return &maskTruncated{} })
}

// maskTruncated clears the mask of truncated responses.
type maskTruncated struct{}

// Process implements trinity.Operator.
func (*maskTruncated) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	masked := 0
	for _, g := range groups {
		for _, e := range g {
			if e.Truncated == trinity.ResponseTruncated {
				clear(e.Mask)
				clear(e.Logprobs) // log-probabilities are 0 where the mask is false
				masked++
			}
		}
	}
	return groups, trinity.Metrics{"masked_truncated_count": float64(masked)}, nil
}
