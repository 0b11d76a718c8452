package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

// mathSystem asks for thoughts and an answer between tags.
const mathSystem = "You solve mathematical problems. First work through the problem step by step, writing all of your reasoning between <think> and </think>. " +
	"Then give the final answer, and nothing else, between <answer> and </answer>. " +
	"A reply looks like this: <think> the reasoning </think> <answer> the final answer </answer>"

func init() {
	register("math_workflow",
		"One turn of mathematics: a system prompt that asks for <think>…</think> <answer>…</answer>, unless the task has a system prompt of its own, and the question. "+
			"Default reward: math_reward. format.reply_prefix works as in simple_workflow.",
		func() trinity.Workflow { return &Math{} })
}

// Math asks one question of mathematics.
type Math struct {
	reward trinity.RewardFunc
}

// DefaultReward implements trinity.RewardUser.
func (*Math) DefaultReward() string { return "math_reward" }

// WithReward implements trinity.RewardUser.
func (w *Math) WithReward(r trinity.RewardFunc) trinity.Workflow {
	c := *w
	c.reward = r
	return &c
}

// CheckTask implements trinity.TaskChecker.
func (*Math) CheckTask(t *trinity.Task) error { return wantPrompt(t) }

// Run implements trinity.Workflow.
func (w *Math) Run(ctx context.Context, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	system := task.System()
	if system == "" {
		system = mathSystem
	}
	return ask(ctx, task, m, system, w.reward)
}
