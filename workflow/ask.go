package workflow

import (
	"context"

	"github.com/trinity-go/trinity"
)

// ask asks the task's question under its system prompt, else under the given one, scores the reply
// with r.Reward and returns it.
func ask(ctx context.Context, r *trinity.Rollout, system string) ([]*trinity.Experience, error) {
	messages, err := r.Task.Messages(system)
	if err != nil {
		return nil, err
	}
	return askIn(ctx, r, messages)
}

// askIn asks for a reply to a chat, scores it with r.Reward and returns it.
func askIn(ctx context.Context, r *trinity.Rollout, messages []trinity.Message) ([]*trinity.Experience, error) {
	e, err := reply(ctx, r.Model, r.Task, messages)
	if err != nil {
		return nil, err
	}
	e.Prompt = messages[len(messages)-1].Content
	return []*trinity.Experience{e}, r.Score(ctx, e, messages...)
}

// checkPrompt returns an error if a task has no question, or tools that are none.
func checkPrompt(t *trinity.Task) error {
	if _, err := t.Tools(); err != nil {
		return err
	}
	_, err := t.Messages("")
	return err
}

// lastQuestion returns the message that a task's reply answers.
func lastQuestion(t *trinity.Task) (string, error) {
	messages, err := t.Messages("")
	if err != nil {
		return "", err
	}
	return messages[len(messages)-1].Content, nil
}

// chatOf returns the chat that asks a task, as [trinity.Task.Messages] does, but a list of messages in
// the columns of the prompt, of the messages or "messages" comes before a question that is a text.
func chatOf(t *trinity.Task, system string) (messages []trinity.Message, err error) {
	own := *t
	for _, key := range []string{t.Format.PromptKey, t.Format.MessagesKey, "messages"} {
		v, _ := t.Field(key)
		if chat, err := t.ReadChat(key, v); chat != nil || err != nil { // Messages reports the error
			own.Format.PromptKey, own.Format.PromptTemplate = key, ""
			break
		}
	}
	return own.Messages(system)
}

// reply samples an assistant turn that begins with the task's reply prefix, with the tools of its row.
// The prefix belongs to the prompt's tokens and to the text of the response.
func reply(ctx context.Context, m *trinity.Model, t *trinity.Task, messages []trinity.Message) (*trinity.Experience, error) {
	prefix := t.Format.ReplyPrefix
	tools, err := t.Tools()
	if err != nil {
		return nil, err
	}
	if prefix == "" {
		return m.Chat(ctx, messages, tools)
	}
	prompt, err := m.Renderer.Render(messages, tools, true)
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
