package reward

import (
	"context"
	"fmt"
	"regexp"
	"slices"
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

// Requires implements [trinity.Requirer].
func (p *pattern) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, err := t.Truths()
		return err
	}}
}

// Score implements [trinity.RewardFunc].
func (p *pattern) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truths, err := truthsOf(in)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	if len(truths) == 0 {
		truths = []string{""} // a pattern alone
	}
	accuracy := 0.0
	m := p.re.FindStringSubmatch(in.Response)
	if m == nil && in.Opening != "" {
		m = p.re.FindStringSubmatch(in.Opening + in.Response)
	}
	if m != nil && !truncated(in) {
		answer := m[p.re.SubexpIndex("answer")]
		if slices.ContainsFunc(truths, func(truth string) bool { return answer == strings.TrimSpace(truth) }) {
			accuracy = 1
		}
	}
	return trinity.NewReward(map[string]float64{"accuracy": accuracy}), nil
}

// truncated reports whether the length limit ended the reply.
func truncated(in trinity.RewardInput) bool {
	return in.Experience != nil && in.Experience.Truncated == trinity.ResponseTruncated
}
