package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

func init() {
	register("on_policy_distill_workflow",
		"One turn to be distilled: the system prompt, if there is one, and the question. Nothing scores the reply, whose reward is 0: a teacher's log-probabilities are learnt from, "+
			"which the trainer asks for (explorer.auxiliary_models). format.reply_prefix works as in simple_workflow.",
		func() trinity.Workflow { return &Distill{} })
	register("on_policy_distill_math_workflow",
		"math_boxed_workflow by the name that it has in configurations of distillation: the reward tells how the student does, and a teacher's log-probabilities are learnt from.",
		func() trinity.Workflow { return &MathBoxed{} })
}

// Distill asks one question and scores nothing.
//
// Unlike Trinity-RFT: the trainer asks the teacher, not the workflow, because there the batch's sequences are computed side by side.
type Distill struct{}

// CheckTask implements trinity.TaskChecker.
func (*Distill) CheckTask(t *trinity.Task) error { return wantPrompt(t) }

// Run implements trinity.Workflow.
func (*Distill) Run(ctx context.Context, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	return ask(ctx, task, m, task.System(), unscored{})
}

// unscored is the reward where none is learnt from.
type unscored struct{}

// Score implements trinity.RewardFunc.
func (unscored) Score(context.Context, trinity.RewardInput) (trinity.Reward, error) {
	return trinity.NewReward(nil), nil
}
