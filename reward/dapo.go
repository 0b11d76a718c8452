package reward

import (
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("math_dapo_reward",
		"accuracy + overlong_penalty (DAPO, Yu et al. 2025, §3.4). accuracy: 1 if the final answer equals the truth mathematically, else −1. "+
			"overlong_penalty of a reply of n tokens, if `enable_overlong_penalty`: with e = max_response_length − cache_length, 0 for n ≤ e, "+
			"−penalty_factor·(n − e)/cache_length up to max_response_length, −penalty_factor beyond. "+
			"Parts: accuracy, and overlong_penalty if it is enabled.",
		func() trinity.RewardFunc { return &mathDAPO{PenaltyFactor: 1} })
}

// mathDAPO scores the answer and subtracts a penalty that grows as the reply approaches the length
// limit.
//
// Unlike Trinity-RFT: the answer is compared as in accuracy_reward, because there π equals
// no number.
type mathDAPO struct {
	EnableOverlongPenalty bool    `yaml:"enable_overlong_penalty" doc:"penalize long replies"`
	PenaltyFactor         float64 `yaml:"penalty_factor" doc:"the full penalty"`
	MaxResponseLength     int     `yaml:"max_response_length" doc:"tokens at which the penalty is full"`
	CacheLength           int     `yaml:"cache_length" doc:"tokens before max_response_length over which the penalty grows"`
}

// Validate returns an error if the lengths do not fit together.
func (m *mathDAPO) Validate() error {
	switch {
	case !m.EnableOverlongPenalty:
		return nil
	case m.CacheLength <= 0 || m.MaxResponseLength < m.CacheLength:
		return fmt.Errorf("enable_overlong_penalty needs 0 < cache_length ≤ max_response_length, got %d and %d",
			m.CacheLength, m.MaxResponseLength)
	case m.PenaltyFactor < 0:
		return fmt.Errorf("penalty_factor: must not be negative, got %g", m.PenaltyFactor)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (*mathDAPO) Requires() trinity.Requirements { return trinity.Requirements{CheckTask: checkTruth} }

// Score implements [trinity.RewardFunc].
func (m *mathDAPO) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	parts := map[string]float64{"accuracy": 2*right(answers["auto"], in.Response, truth) - 1}
	if m.EnableOverlongPenalty {
		if in.Experience == nil {
			return trinity.InvalidReward("the overlong penalty needs the reply's tokens, and only text was given"), nil
		}
		parts["overlong_penalty"] = m.overlong(in.Experience.TrainedTokens())
	}
	return trinity.NewReward(parts), nil
}

// overlong returns the penalty of a reply of n tokens, 0 or less.
func (m *mathDAPO) overlong(n int) float64 {
	over := n - (m.MaxResponseLength - m.CacheLength)
	switch {
	case over <= 0:
		return 0
	case over >= m.CacheLength:
		return -m.PenaltyFactor
	}
	return -m.PenaltyFactor * float64(over) / float64(m.CacheLength)
}
