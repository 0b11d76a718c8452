package reward

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
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
	_, err := numbersIn(trinity.RewardInput{Task: t, Truth: t.Truth()})
	return err
}

// Score implements [trinity.RewardFunc].
func (l *lastNumber) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truths, err := numbersIn(in)
	if err != nil {
		return trinity.InvalidReward(err.Error()), nil
	}
	parts := map[string]float64{"accuracy": 0, "format_score": 0}
	reply := plainNumerals(in.Response)
	all := number.FindAllString(reply, -1)
	if len(all) > 0 {
		got, ok := rational(all[len(all)-1])
		if ok && slices.ContainsFunc(truths, func(truth *big.Rat) bool { return got.Cmp(truth) == 0 }) {
			parts["accuracy"] = 1
		}
	}
	if bareNumber.MatchString(reply) {
		parts["format_score"] = l.FormatScore
	}
	return trinity.NewReward(parts), nil
}

// numbersIn returns the truths, of which each is right, as numbers.
func numbersIn(in trinity.RewardInput) (numbers []*big.Rat, err error) {
	truths, err := truthsOf(in)
	if err != nil || in.Truth == "" {
		return nil, errors.New(noTruth(in).Reason)
	}
	for _, truth := range truths {
		n, ok := rational(truth)
		if !ok {
			return nil, fmt.Errorf("the truth %q is not a number", truth)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
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
