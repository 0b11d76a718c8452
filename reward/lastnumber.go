package reward

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("last_number_reward",
		"1 if the last number in the reply equals the truth, plus `format_score` if the reply is a number and nothing else. Minus signs and "+
			"decimal digits of all scripts count. "+
			"Parts: accuracy, format_score.",
		func() trinity.RewardFunc { return &lastNumber{FormatScore: 0.1} })
}

// lastNumber scores the last number of a reply, with which most models end.
type lastNumber struct {
	FormatScore float64 `yaml:"format_score" doc:"for a reply that is only a number"`
}

var (
	number     = regexp.MustCompile(`-?\d[\d,]*(?:\.\d+)?`)
	bareNumber = regexp.MustCompile(`\A\s*[-+]?\d[\d,]*(?:\.\d+)?\s*\z`)
)

// Requires implements [trinity.Requirer].
func (*lastNumber) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: checkNumber}
}

func checkNumber(t *trinity.Task) error {
	_, err := numberIn(trinity.RewardInput{Task: t, Truth: t.Truth()})
	return err
}

// Score implements [trinity.RewardFunc].
func (l *lastNumber) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, err := numberIn(in)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	parts := map[string]float64{"accuracy": 0, "format_score": 0}
	reply := plainNumerals(in.Response)
	all := number.FindAllString(reply, -1)
	if len(all) > 0 {
		if got, ok := rational(all[len(all)-1]); ok && got.Cmp(truth) == 0 {
			parts["accuracy"] = 1
		}
	}
	if bareNumber.MatchString(reply) {
		parts["format_score"] = l.FormatScore
	}
	return trinity.NewReward(parts), nil
}

// numberIn returns the truth as a number.
func numberIn(in trinity.RewardInput) (*big.Rat, error) {
	n, ok := rational(in.Truth)
	switch {
	case in.Truth == "":
		return nil, errors.New(noTruth(in).Reason)
	case !ok:
		return nil, fmt.Errorf("the truth %q is not a number", in.Truth)
	}
	return n, nil
}

// maxDigits bounds the length of a number, in bytes.
const maxDigits = 100

// rational reads a decimal number; ok is false for any other text.
func rational(text string) (*big.Rat, bool) {
	text = strings.ReplaceAll(strings.TrimSpace(plainNumerals(text)), ",", "")
	if len(text) > maxDigits || !bareNumber.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}
