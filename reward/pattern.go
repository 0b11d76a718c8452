package reward

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("pattern_reward",
		"1 when the whole reply matches `pattern` and its group `answer` equals the truth, else 0. A reply that was cut off by the length limit gets 0. Part: accuracy.",
		func() trinity.RewardFunc { return &Pattern{} })
}

// Pattern scores by a regular expression (RE2, which takes linear time whatever the reply).
type Pattern struct {
	Pattern string `yaml:"pattern" doc:"regular expression for the whole reply, with a group named answer"`

	re *regexp.Regexp
}

// Validate compiles the expression.
func (p *Pattern) Validate() error {
	re, err := whole(p.Pattern)
	if err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if re.SubexpIndex("answer") < 0 {
		return fmt.Errorf("pattern %q has no group (?P<answer>…)", p.Pattern)
	}
	p.re = re
	return nil
}

// Score implements trinity.RewardFunc.
func (p *Pattern) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	accuracy := 0.0
	m := p.re.FindStringSubmatch(in.Response)
	if m != nil && !cutOff(in) && m[p.re.SubexpIndex("answer")] == strings.TrimSpace(in.Truth) {
		accuracy = 1
	}
	return trinity.NewReward(map[string]float64{"accuracy": accuracy}), nil
}

// cutOff reports whether the reply ended by the length limit rather than by itself.
func cutOff(in trinity.RewardInput) bool {
	return in.Experience != nil && in.Experience.Truncated == trinity.ResponseTruncated
}
