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
		"1 when the final answer of the reply equals the truth as mathematics (1/2 = 0.5 = \\frac12, 1,234 = 1234, sets without order), else 0. "+
			"`answer` says where the answer stands: auto (the last <answer> tag, \\boxed, ####, \"the answer is\", last formula, last line or last number), tag, boxed, hash, last_number, whole. "+
			"Of the truth, what follows #### or stands in \\boxed counts, else all of it. Part: accuracy.",
		func() trinity.RewardFunc { return &Accuracy{Answer: "auto"} })
}

// Accuracy scores whether the answer is right.
type Accuracy struct {
	Answer string `yaml:"answer" doc:"where the answer stands in the reply: auto, tag, boxed, hash, last_number, whole"`
}

var answers = map[string]func(reply string) (string, bool){
	"auto":        func(reply string) (string, bool) { a := mathequal.Answer(reply); return a, a != "" },
	"tag":         mathequal.Tagged,
	"boxed":       mathequal.Boxed,
	"hash":        mathequal.Hashed,
	"last_number": mathequal.LastNumber,
	"whole":       func(reply string) (string, bool) { return reply, reply != "" },
}

// Validate wants a known place.
func (a *Accuracy) Validate() error {
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

// CheckTask implements trinity.TaskChecker.
func (*Accuracy) CheckTask(t *trinity.Task) error { return wantTruth(t) }

// Score implements trinity.RewardFunc.
func (a *Accuracy) Score(_ context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	truth, ok := truthOf(in)
	if !ok {
		return noTruth(in), nil
	}
	return trinity.NewReward(map[string]float64{"accuracy": right(answers[a.Answer], in.Response, truth)}), nil
}

// right is 1 when the answer that find sees in the reply equals the truth, else 0.
func right(find func(string) (string, bool), reply, truth string) float64 {
	if answer, ok := find(reply); ok && mathequal.Equal(answer, truth) {
		return 1
	}
	return 0
}

// truthOf is the reference answer without the solution around it.
func truthOf(in trinity.RewardInput) (string, bool) {
	truth := mathequal.Truth(in.Truth)
	return truth, truth != ""
}

// wantTruth wants a task to have a reference answer.
func wantTruth(t *trinity.Task) error {
	if in := (trinity.RewardInput{Task: t, Truth: t.Truth()}); mathequal.Truth(in.Truth) == "" {
		return errors.New(noTruth(in).Reason)
	}
	return nil
}

// noTruth is the reward of a task without a reference answer.
func noTruth(in trinity.RewardInput) trinity.Reward {
	key := ""
	if in.Task != nil {
		key = fmt.Sprintf(" at format.response_key %q", in.Task.Format.ResponseKey)
		if _, ok := in.Task.Field(in.Task.Format.ResponseKey); !ok {
			key += ", which its row lacks"
		}
	}
	return trinity.InvalidReward("the task has no reference answer" + key)
}
