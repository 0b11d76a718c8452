package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

// mathSystem asks for reasoning and an answer, each between tags.
const mathSystem = "You solve mathematical problems. " +
	"First work through the problem step by step, writing all of your reasoning between <think> and </think>. " +
	"Then give the final answer, and nothing else, between <answer> and </answer>. " +
	"A reply looks like this: <think> the reasoning </think> <answer> the final answer </answer>"

func init() {
	register("math_workflow",
		"One turn of mathematics: the task's system prompt, or by default a prompt that asks for <think>…</think> <answer>…</answer>, and "+
			"the question. "+
			"Default reward: math_reward. format.reply_prefix works as in simple_workflow.",
		func() trinity.Workflow { return &mathWorkflow{} })
}

// mathWorkflow asks one mathematical question.
type mathWorkflow struct{}

// Requires implements [trinity.Requirer].
func (*mathWorkflow) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, DefaultReward: "math_reward", CheckTask: checkPrompt}
}

// Run implements [trinity.Workflow].
func (*mathWorkflow) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return ask(ctx, r, mathSystem)
}
