package operator

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("overlong_shaping",
		"Subtracts a soft penalty for long responses from any reward (DAPO, Yu et al. 2025, equation 13). "+
			"With e = max_response_length − cache_length, a response of n tokens loses nothing for n ≤ e, "+
			"penalty_factor·(n − e)/cache_length up to max_response_length, and penalty_factor beyond. The "+
			"reward math_dapo_reward has the same penalty built in: use one of them. Metrics: "+
			"reward_diff/{mean,max,min}, overlong_count (experiences with a penalty).",
		func() trinity.Operator { return &overlongShaping{PenaltyFactor: 1} })
}

// overlongShaping lowers the reward of long responses.
type overlongShaping struct {
	PenaltyFactor     float64 `yaml:"penalty_factor" range:"[0,inf]" doc:"the largest penalty"`
	MaxResponseLength int     `yaml:"max_response_length" doc:"tokens after the prompt at which the penalty is largest"`
	CacheLength       int     `yaml:"cache_length" doc:"tokens before max_response_length over which the penalty grows"`
}

// Validate checks the lengths.
func (s *overlongShaping) Validate() error {
	if s.CacheLength <= 0 || s.MaxResponseLength < s.CacheLength {
		return fmt.Errorf("set 0 < cache_length ≤ max_response_length, in tokens, got %d and %d", s.CacheLength, s.MaxResponseLength)
	}
	return nil
}

// Process implements trinity.Operator.
func (s *overlongShaping) Process(_ context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	var diffs []float64
	overlong := 0
	for _, g := range groups {
		for _, e := range g {
			if !scored(e) {
				continue
			}
			penalty := s.penalty(e.ResponseLen())
			if penalty > 0 {
				e.Reward.Value -= penalty
				overlong++
			}
			diffs = append(diffs, 0-penalty)
		}
	}
	metrics := trinity.Metrics{"overlong_count": float64(overlong)}
	summarize(metrics, "reward_diff", diffs)
	return groups, metrics, nil
}

// penalty returns what a response of n tokens loses.
func (s *overlongShaping) penalty(n int) float64 {
	over := n - (s.MaxResponseLength - s.CacheLength)
	return s.PenaltyFactor * float64(min(max(over, 0), s.CacheLength)) / float64(s.CacheLength)
}
