package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

func init() {
	register("on_policy_distill_workflow",
		"One turn to distill: the system prompt, if there is one, and the question. Nothing scores the reply, so its reward is 0. "+
			"The student learns from the log-probabilities of a teacher, which the trainer computes (explorer.auxiliary_models). "+
			"format.reply_prefix works as in simple_workflow.",
		func() trinity.Workflow { return &distill{} })
	register("on_policy_distill_math_workflow",
		"math_boxed_workflow under the name that distillation configurations use. The reward shows how good the student is; "+
			"the student learns from the log-probabilities of a teacher.",
		func() trinity.Workflow { return &mathBoxed{} })
}

// distill asks one question and scores nothing.
//
// Unlike Trinity-RFT: the trainer asks the teacher, not the workflow, because the trainer computes
// the sequences of a batch in parallel.
type distill struct{}

// Requires implements [trinity.Requirer].
func (*distill) Requires() trinity.Requirements { return trinity.Requirements{CheckTask: checkPrompt} }

// Run implements [trinity.Workflow].
func (*distill) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	unrewarded := *r
	unrewarded.Reward = zero{}
	return ask(ctx, &unrewarded, "")
}

// zero gives every reply the reward 0, which the algorithm ignores.
type zero struct{}

// Score implements [trinity.RewardFunc].
func (zero) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.NewReward(nil), nil
}
