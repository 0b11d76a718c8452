package reward

import (
	"context"
	"regexp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("math_boxed_reward",
		"accuracy + format_score. accuracy: 1 if the content of the last \\boxed{} equals the truth mathematically, else 0. "+
			"format_score: −`format_score_coef` if `with_think` is set and the reply is not one <think> block followed by a \\boxed answer, "+
			"else 0. Parts: accuracy, format_score.",
		func() trinity.RewardFunc { return &mathBoxed{FormatScoreCoef: 0.1} })
}

// mathBoxed scores a reply that puts its answer in a box.
//
// Unlike Trinity-RFT: with_think also wants the box behind the think block, because an answer inside
// it is no answer; format_score_coef 0 subtracts nothing, because there it means 0.1; and the answer
// is compared as in accuracy_reward.
type mathBoxed struct {
	WithThink       bool    `yaml:"with_think" doc:"expect one <think> block before the answer"`
	FormatScoreCoef float64 `yaml:"format_score_coef" doc:"subtracted for a missing think block; 0 subtracts nothing"`
}

// WithFormat returns a copy that also expects the format of math_boxed_workflow's arguments. A nil
// coef keeps the reward's own.
func (m *mathBoxed) WithFormat(withThink bool, coef *float64) trinity.RewardFunc {
	c := *m
	c.WithThink = c.WithThink || withThink
	if coef != nil {
		c.FormatScoreCoef = *coef
	}
	return &c
}

var thinkBoxed = regexp.MustCompile(`(?s)\A\s*<think>.*</think>.*\\(?:boxed|fbox)`)

// Requires implements [trinity.Requirer].
func (*mathBoxed) Requires() trinity.Requirements { return trinity.Requirements{CheckTask: checkTruth} }

// Score implements [trinity.RewardFunc].
func (m *mathBoxed) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	parts := map[string]float64{"accuracy": right(answers["boxed"], in.Response, truth), "format_score": 0}
	reply := in.Opening + in.Response
	if m.WithThink && !(once(reply, "<think>", "</think>") && thinkBoxed.MatchString(reply)) {
		parts["format_score"] = -m.FormatScoreCoef
	}
	return trinity.NewReward(parts), nil
}
