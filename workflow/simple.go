package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	register("simple_workflow",
		"One turn: the system prompt, if there is one, and the question. The task's reward function scores the reply; the task must name one. "+
			"format.reply_prefix begins the reply: the model reads it and does not train on it, and the reward function sees it as part "+
			"of the reply.",
		func() trinity.Workflow { return &simpleWorkflow{} })
}

// register adds a workflow under its name and under Trinity-RFT's async_ name. Both are the same,
// because all rollouts run concurrently.
func register(name, doc string, build func() trinity.Workflow) {
	registry.Workflows.Register(name, doc, build)
	registry.Workflows.Register("async_"+name, "The same as "+name+".", build)
}

// simpleWorkflow asks one question.
type simpleWorkflow struct{}

// Requires implements [trinity.Requirer].
func (*simpleWorkflow) Requires() trinity.Requirements {
	return trinity.Requirements{Reward: true, CheckTask: checkPrompt}
}

// Run implements [trinity.Workflow].
func (*simpleWorkflow) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	return ask(ctx, r, "")
}
