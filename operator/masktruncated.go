package operator

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("mask_response_truncated",
		"Takes replies that hit a length limit out of the loss (overlong filtering of DAPO, Yu et al. 2025, §3.4). They keep their reward and count in the statistics of their group. "+
			"Metric: masked_truncated_count.",
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
				clear(e.Logprobs) // which are 0 where nothing is trained
				masked++
			}
		}
	}
	return groups, trinity.Metrics{"masked_truncated_count": float64(masked)}, nil
}
