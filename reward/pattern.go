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
		"1 if the whole reply matches `pattern` and the group `answer` equals the truth, else 0. A truncated reply gets 0. "+
			"If the prompt ends by opening <think>, the pattern may match the reply with the tag or without. Part: accuracy.",
		func() trinity.RewardFunc { return &pattern{} })
}

// pattern scores with a regular expression in RE2 syntax, whose matching time is linear in the
// reply.
type pattern struct {
	Pattern string `yaml:"pattern" doc:"regular expression for the whole reply, with a group named answer"`

	re *regexp.Regexp
}

// Validate compiles the expression, which must have a group named answer.
func (p *pattern) Validate() error {
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

// Score implements [trinity.RewardFunc].
func (p *pattern) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	accuracy := 0.0
	m := p.re.FindStringSubmatch(in.Response)
	if m == nil && in.Opening != "" {
		m = p.re.FindStringSubmatch(in.Opening + in.Response)
	}
	if m != nil && !truncated(in) && m[p.re.SubexpIndex("answer")] == strings.TrimSpace(in.Truth) {
		accuracy = 1
	}
	return trinity.NewReward(map[string]float64{"accuracy": accuracy}), nil
}

// truncated reports whether the length limit ended the reply.
func truncated(in trinity.RewardInput) bool {
	return in.Experience != nil && in.Experience.Truncated == trinity.ResponseTruncated
}
