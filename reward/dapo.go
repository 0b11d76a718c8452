package reward

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("math_dapo_reward",
		"accuracy + overlong_penalty (DAPO, Yu et al. 2025, §3.4). accuracy: 1 when the final answer equals the truth as mathematics, else −1. "+
			"overlong_penalty of a reply of n tokens, when `enable_overlong_penalty`: with e = max_response_length − cache_length, 0 for n ≤ e, "+
			"−penalty_factor·(n − e)/cache_length up to max_response_length, −penalty_factor beyond. Parts: accuracy, and overlong_penalty when it is enabled.",
		func() trinity.RewardFunc { return &MathDAPO{PenaltyFactor: 1} })
}

// MathDAPO scores a right answer and softly punishes replies that come near the length limit.
type MathDAPO struct {
	EnableOverlongPenalty bool    `yaml:"enable_overlong_penalty" doc:"punish long replies"`
	PenaltyFactor         float64 `yaml:"penalty_factor" doc:"the whole penalty"`
	MaxResponseLength     int     `yaml:"max_response_length" doc:"tokens; from here on the penalty is whole"`
	CacheLength           int     `yaml:"cache_length" doc:"tokens before max_response_length over which the penalty grows"`
}

// Validate checks the lengths.
func (m *MathDAPO) Validate() error {
	switch {
	case !m.EnableOverlongPenalty:
		return nil
	case m.CacheLength <= 0 || m.MaxResponseLength < m.CacheLength:
		return fmt.Errorf("enable_overlong_penalty needs 0 < cache_length ≤ max_response_length, got %d and %d", m.CacheLength, m.MaxResponseLength)
	case m.PenaltyFactor < 0:
		return errors.New("penalty_factor must not be negative")
	}
	return nil
}

// CheckTask implements trinity.TaskChecker.
func (*MathDAPO) CheckTask(t *trinity.Task) error { return wantTruth(t) }

// Score implements trinity.RewardFunc.
func (m *MathDAPO) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
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

// overlong is the penalty of a reply of n tokens.
func (m *MathDAPO) overlong(n int) float64 {
	over := n - (m.MaxResponseLength - m.CacheLength)
	switch {
	case over <= 0:
		return 0
	case over >= m.CacheLength:
		return -m.PenaltyFactor
	}
	return -m.PenaltyFactor * float64(over) / float64(m.CacheLength)
}
