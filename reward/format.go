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
	registry.Rewards.Register("format_reward",
		"`coef` if the whole reply matches `pattern`, else −`coef`. The default pattern is one <think> block, then one <answer> block, "+
			"and nothing else. If the prompt ends by opening <think>, the tag belongs to the reply; a pattern of your own may match "+
			"the reply with it or without. Part: format_score.",
		func() trinity.RewardFunc { return newFormat() })
}

// format scores the format of a reply, not its content.
//
// Unlike Trinity-RFT: the pattern is for the whole reply and in RE2 syntax, whose time is linear; and
// by default each tag occurs once and may stand on any line.
type format struct {
	Pattern string  `yaml:"pattern" doc:"RE2 expression for the whole reply, a dot matches line feeds; default: both blocks"`
	Coef    float64 `yaml:"coef" doc:"added if the reply matches, subtracted if not"`

	re *regexp.Regexp
}

func newFormat() *format { return &format{Coef: 0.1} }

// Validate compiles the expression.
func (f *format) Validate() error {
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

// Score implements [trinity.RewardFunc].
func (f *format) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	return trinity.NewReward(map[string]float64{"format_score": f.score(in)}), nil
}

func (f *format) score(in trinity.RewardInput) float64 {
	reply := in.Opening + in.Response
	if f.re == nil && isThinkAnswer(reply) || f.re != nil && (f.re.MatchString(reply) || f.re.MatchString(in.Response)) {
		return f.Coef
	}
	return -f.Coef
}

var thinkAnswer = regexp.MustCompile(`(?s)\A\s*<think>.*</think>\s*<answer>.*</answer>\s*\z`)

// isThinkAnswer reports whether a reply has each of the four tags once, in order, with nothing
// outside.
func isThinkAnswer(reply string) bool {
	return once(reply, "<think>", "</think>", "<answer>", "</answer>") && thinkAnswer.MatchString(reply)
}

// once reports whether a reply has each of the tags exactly once.
func once(reply string, tags ...string) bool {
	return !slices.ContainsFunc(tags, func(tag string) bool { return strings.Count(reply, tag) != 1 })
}

// whole compiles an expression that must match a whole text.
func whole(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?s)\A(?:` + pattern + `)\z`)
}
