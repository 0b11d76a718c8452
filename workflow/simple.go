package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	register("simple_workflow",
		"One turn: the system prompt, if there is one, and the question; the reply is scored by the task's reward function, which must be named. "+
			"format.reply_prefix begins the reply: it is read but not trained on, and scored as part of the reply.",
		func() trinity.Workflow { return &Simple{} })
}

// register adds a workflow under its name and under the async_ name that Trinity-RFT has for it: here all rollouts run side by side.
func register(name, doc string, build func() trinity.Workflow) {
	registry.Workflows.Register(name, doc, build)
	registry.Workflows.Register("async_"+name, "The same as "+name+".", build)
}

// Simple asks one question.
type Simple struct {
	reward trinity.RewardFunc
}

// DefaultReward implements trinity.RewardUser.
func (*Simple) DefaultReward() string { return "" }

// WithReward implements trinity.RewardUser.
func (s *Simple) WithReward(r trinity.RewardFunc) trinity.Workflow {
	c := *s
	c.reward = r
	return &c
}

// CheckTask implements trinity.TaskChecker.
func (*Simple) CheckTask(t *trinity.Task) error { return wantPrompt(t) }

// Run implements trinity.Workflow.
func (s *Simple) Run(ctx context.Context, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	return ask(ctx, task, m, task.System(), s.reward)
}
