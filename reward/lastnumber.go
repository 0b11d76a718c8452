package reward

import (
	"context"
	"math/big"
	"regexp"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("last_number_reward",
		"1 when the last number in the reply equals the truth, plus `format_score` when the reply is that number and nothing else. Parts: accuracy, format_score.",
		func() trinity.RewardFunc { return &LastNumber{FormatScore: 0.1} })
}

// LastNumber scores what most models end a reply with.
type LastNumber struct {
	FormatScore float64 `yaml:"format_score" doc:"for a reply that is a number alone"`
}

var (
	number     = regexp.MustCompile(`-?\d[\d,]*(?:\.\d+)?`)
	bareNumber = regexp.MustCompile(`\A\s*-?\d[\d,]*(?:\.\d+)?\s*\z`)
)

// Score implements trinity.RewardFunc.
func (l *LastNumber) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := rational(in.Truth)
	if !ok {
		return trinity.InvalidReward("the truth " + in.Truth + " is not a number"), nil
	}
	parts := map[string]float64{"accuracy": 0, "format_score": 0}
	all := number.FindAllString(in.Response, -1)
	if len(all) > 0 {
		if got, ok := rational(all[len(all)-1]); ok && got.Cmp(truth) == 0 {
			parts["accuracy"] = 1
		}
	}
	if bareNumber.MatchString(in.Response) {
		parts["format_score"] = l.FormatScore
	}
	return trinity.NewReward(parts), nil
}

// maxDigits bounds the numbers that are compared.
const maxDigits = 100

func rational(text string) (*big.Rat, bool) {
	text = strings.ReplaceAll(strings.TrimSpace(text), ",", "")
	if len(text) > maxDigits || !bareNumber.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
