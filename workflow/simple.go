package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Workflows.Register("simple_workflow",
		"One turn: the system prompt, if there is one, and the question; the reply is scored by the task's reward function, which must be named.",
		func() trinity.Workflow { return &Simple{} })
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

// Run implements trinity.Workflow.
func (s *Simple) Run(ctx context.Context, task *trinity.Task, m *trinity.Model) ([]*trinity.Experience, error) {
	return ask(ctx, task, m, task.System(), s.reward)
}

// ask puts the task's question under a system prompt and scores the reply.
func ask(ctx context.Context, task *trinity.Task, m *trinity.Model, system string, reward trinity.RewardFunc) ([]*trinity.Experience, error) {
	question, err := task.Prompt()
	if err != nil {
		return nil, err
	}
	var messages []trinity.Message
	if system != "" {
		messages = append(messages, trinity.Message{Role: "system", Content: system})
	}
	e, err := m.Chat(ctx, append(messages, trinity.Message{Role: "user", Content: question}), nil)
	if err != nil {
		return nil, err
	}
	e.Prompt = question
	score(ctx, task, e, reward)
	return []*trinity.Experience{e}, nil
}

// score writes the reward. A reply that cannot be scored stays without one, with the reason.
func score(ctx context.Context, task *trinity.Task, e *trinity.Experience, reward trinity.RewardFunc) {
	if e.Truncated == trinity.PromptTruncated {
		return
	}
	r, err := reward.Score(ctx, trinity.RewardInput{Task: task, Prompt: e.Prompt, Response: e.Response, Truth: task.Truth(), Experience: e})
	if err != nil {
		r = trinity.InvalidReward(err.Error())
	}
	e.Reward = r
}
