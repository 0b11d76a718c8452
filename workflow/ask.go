package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	e, err := reply(ctx, r.Model, messages, r.Task.Format.ReplyPrefix)
	if err != nil {
		return nil, err
	}
	e.Prompt = messages[len(messages)-1].Content
	return []*trinity.Experience{e}, r.Score(ctx, e, messages...)
}

// checkPrompt returns an error if a task has no question.
func checkPrompt(t *trinity.Task) error {
	_, err := t.Messages("")
	return err
}

// chatOf returns the chat in a task's row, else the chat that asks the task's question. It begins with
// the chat's own system prompt, else the task's, else the given one.
func chatOf(t *trinity.Task, system string) (messages []trinity.Message, err error) {
	for _, key := range []string{t.Format.PromptKey, t.Format.MessagesKey, "messages"} {
		list, _ := t.Field(key)
		if _, ok := list.([]any); !ok {
			continue
		}
		text, err := json.Marshal(list)
		if err == nil {
			err = json.Unmarshal(text, &messages)
		}
		if err == nil && len(messages) == 0 {
			err = errors.New("it is empty")
		}
		if err != nil {
			return nil, fmt.Errorf("column %q: want a list of messages with role and content: %w", key, err)
		}
		own, err := t.System()
		if system = cmp.Or(own, system); system != "" && messages[0].Role != "system" {
			messages = append([]trinity.Message{{Role: "system", Content: system}}, messages...)
		}
		return messages, err
	}
	return t.Messages(system)
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
