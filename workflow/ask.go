package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

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
	messages = append(messages, trinity.Message{Role: "user", Content: question})
	e, err := reply(ctx, m, messages, task.Format.ReplyPrefix)
	if err != nil {
		return nil, err
	}
	e.Prompt = question
	score(ctx, task, e, reward)
	return []*trinity.Experience{e}, nil
}

// wantPrompt wants a task to have a question.
func wantPrompt(t *trinity.Task) error {
	_, err := t.Prompt()
	return err
}

// reply asks for an assistant's turn that begins with prefix. The prefix is part of the prompt's tokens and of the response's text.
func reply(ctx context.Context, m *trinity.Model, messages []trinity.Message, prefix string) (*trinity.Experience, error) {
	if prefix == "" {
		return m.Chat(ctx, messages, nil)
	}
	prompt, err := m.Renderer.Render(messages, nil, true)
	if err != nil {
		return nil, err
	}
	e, err := m.Generate(ctx, append(prompt, prefixTokens(m.Renderer, prefix)...))
	if err != nil {
		return nil, err
	}
	e.Response = prefix + e.Response
	return e, nil
}

// prefixTokens encodes text that goes on after a prompt, so without the beginning-of-sequence token, which is all that an empty text has.
func prefixTokens(r trinity.Renderer, text string) []int32 {
	return r.Encode(text)[len(r.Encode("")):]
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
