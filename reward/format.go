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
	registry.Rewards.Register("format_reward",
		"`coef` when the whole reply matches `pattern`, else −`coef`. The default pattern is one <think> block, then one <answer> block, and nothing else. Part: format_score.",
		func() trinity.RewardFunc { return newFormat() })
}

// Format scores the shape of a reply, not what it says.
type Format struct {
	Pattern string  `yaml:"pattern" doc:"regular expression (RE2) for the whole reply; a dot matches line ends too; empty is the think and answer blocks"`
	Coef    float64 `yaml:"coef" doc:"added for a reply that matches, taken for one that does not"`

	re *regexp.Regexp
}

func newFormat() *Format { return &Format{Coef: 0.1} }

// Validate compiles the expression.
func (f *Format) Validate() error {
	if f.Pattern == "" {
		return nil
	}
	re, err := whole(f.Pattern)
	if err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	f.re = re
	return nil
}

// Score implements trinity.RewardFunc.
func (f *Format) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return trinity.NewReward(map[string]float64{"format_score": f.score(in.Response)}), nil
}

func (f *Format) score(reply string) float64 {
	if f.re != nil && f.re.MatchString(reply) || f.re == nil && isThinkAnswer(reply) {
		return f.Coef
	}
	return -f.Coef
}

var thinkAnswer = regexp.MustCompile(`(?s)\A\s*<think>.*</think>\s*<answer>.*</answer>\s*\z`)

// isThinkAnswer reports whether each of the four tags is there once, in order, with nothing outside.
func isThinkAnswer(reply string) bool {
	for _, tag := range []string{"<think>", "</think>", "<answer>", "</answer>"} {
		if strings.Count(reply, tag) != 1 {
			return false
		}
	}
	return thinkAnswer.MatchString(reply)
}

// whole compiles an expression for all of a text.
func whole(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?s)\A(?:` + pattern + `)\z`)
}
