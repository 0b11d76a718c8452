package reward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/reward/mathequal"
)

func init() {
	registry.Rewards.Register("accuracy_reward",
		"1 if the final answer of the reply equals the truth mathematically (1/2 = 0.5 = \\frac12, 1,234 = 1234, sets in any order), else 0. "+
			"`answer` says where the answer stands: auto (the last <answer> tag, \\boxed, ####, \"the answer is\", last formula, last line "+
			"or last number), tag, boxed, hash, last_number, whole. Boxes, formulas and numbers that commas, \"and\" "+
			"or \"or\" join are one answer, of which a part is wrong. The truth is the text after #### or in \\boxed, else the whole text. "+
			"Part: accuracy.",
		func() trinity.RewardFunc { return &accuracy{Answer: "auto"} })
}

// accuracy scores whether the final answer is right.
//
// Unlike Trinity-RFT: letters, tuples without formula signs and 1e3 are answers, and of several boxes the
// last one counts with those that commas, "and" or "or" join to it, because there two boxes are wrong
// whatever they hold.
type accuracy struct {
	Answer string `yaml:"answer" doc:"where the answer stands in the reply: auto, tag, boxed, hash, last_number, whole"`
}

// answers find the answer in a reply, by place.
var answers = map[string]func(reply string) (string, bool){
	"auto":        func(reply string) (string, bool) { a := mathequal.Answer(reply); return a, a != "" },
	"tag":         mathequal.Tagged,
	"boxed":       mathequal.Boxed,
	"hash":        mathequal.Hashed,
	"last_number": mathequal.LastNumber,
	"whole":       func(reply string) (string, bool) { return reply, reply != "" },
}

// Validate returns an error if the place is unknown.
func (a *accuracy) Validate() error {
	if answers[a.Answer] == nil {
		var known []string
		for k := range answers {
			known = append(known, k)
		}
		slices.Sort(known)
		return fmt.Errorf("answer: unknown place %q (known: %s)", a.Answer, strings.Join(known, ", "))
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (*accuracy) Requires() trinity.Requirements { return trinity.Requirements{CheckTask: checkTruth} }

// Score implements [trinity.RewardFunc].
func (a *accuracy) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	return trinity.NewReward(map[string]float64{"accuracy": right(answers[a.Answer], in.Response, truth)}), nil
}

// right returns 1 if the answer that find returns from the reply equals one of the truths, or all of
// them as a set, else 0.
func right(find func(string) (string, bool), reply string, truths []string) float64 {
	answer, ok := find(reply)
	if !ok {
		return 0
	}
	if len(truths) > 1 {
		truths = append(truths[:len(truths):len(truths)], strings.Join(truths, ", "))
	}
	if slices.ContainsFunc(truths, func(truth string) bool { return mathequal.Equal(answer, truth) }) {
		return 1
	}
	return 0
}

// truthOf returns the reference answers without the solutions around them; ok is false if there are
// none, see [noTruth].
func truthOf(in trinity.RewardInput) (truths []string, ok bool) {
	all, err := truthsOf(in)
	for _, truth := range all {
		if truth = mathequal.Truth(truth); truth == "" {
			return nil, false
		}
		truths = append(truths, truth)
	}
	return truths, err == nil && len(truths) > 0
}

// checkTruth returns an error if a task has no reference answer.
func checkTruth(t *trinity.Task) error {
	in := trinity.RewardInput{Task: t, Truth: t.Truth()}
	if _, ok := truthOf(in); !ok {
		return errors.New(noTruth(in).Reason)
	}
	return nil
}

// noTruth returns the reward of a task without a reference answer that is a text or a number; the
// reason names the key.
func noTruth(in trinity.RewardInput) trinity.Reward {
	if _, err := truthsOf(in); err != nil {
		return trinity.InvalidReward(err.Error())
	}
	key := ""
	if in.Task != nil {
		key = fmt.Sprintf(" at format.response_key %q", in.Task.Format.ResponseKey)
		if _, ok := in.Task.Field(in.Task.Format.ResponseKey); !ok {
			key += ", which the row does not have"
		}
	}
	return trinity.InvalidReward("the task has no reference answer" + key)
}
