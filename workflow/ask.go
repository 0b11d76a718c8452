package workflow

import (
	"cmp"
	"context"

	"github.com/trinity-go/trinity"
)

// ask asks the task's question under its system prompt, else under the given one, scores the reply
// with r.Reward and returns it.
func ask(ctx context.Context, r *trinity.Rollout, system string) ([]*trinity.Experience, error) {
	messages, err := question(r.Task, system)
	if err != nil {
		return nil, err
	}
	e, err := reply(ctx, r.Model, messages, r.Task.Format.ReplyPrefix)
	if err != nil {
		return nil, err
	}
	e.Prompt = messages[len(messages)-1].Content
	return []*trinity.Experience{e}, r.Score(ctx, e, messages...)
}

// question returns the chat that asks the task's question, with the task's system message, else the
// given one, else none.
func question(task *trinity.Task, system string) (messages []trinity.Message, err error) {
	text, err := task.Prompt()
	if err != nil {
		return nil, err
	}
	own, err := task.System()
	if err != nil {
		return nil, err
	}
	if system = cmp.Or(own, system); system != "" {
		messages = append(messages, trinity.Message{Role: "system", Content: system})
	}
	return append(messages, trinity.Message{Role: "user", Content: text}), nil
}

// checkPrompt returns an error if a task has no question.
func checkPrompt(t *trinity.Task) error {
	_, err := question(t, "")
	return err
}

// reply samples an assistant turn that begins with prefix. The prefix belongs to the prompt's
// tokens and to the text of the response.
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

// prefixTokens encodes text that continues a prompt, without the beginning-of-sequence token. It
// finds this token by encoding an empty text.
func prefixTokens(r trinity.Renderer, text string) []int32 {
	return r.Encode(text)[len(r.Encode("")):]
}
