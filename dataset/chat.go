package dataset

import (
	"errors"

	"github.com/trinity-go/trinity"
)

// demonstration returns an experience that learns what the assistant says in a chat.
func (w writer) demonstration(row *trinity.Task) ([]*trinity.Experience, error) {
	chat, err := w.chat(row)
	if err != nil {
		return nil, err
	}
	if chat, err = untilAssistant(chat); err != nil {
		return nil, err
	}
	given := len(chat) - 1
	if w.AllTurns {
		given = 0
	}
	e, err := w.write(row, chat[:given], chat[given:])
	return []*trinity.Experience{e}, err
}

// chat returns the whole chat of a demonstration.
func (w writer) chat(row *trinity.Task) ([]trinity.Message, error) {
	switch w.PromptType {
	case "plaintext":
		prompt, err := userAt(row)
		if err != nil {
			return nil, err
		}
		if isChatAt(row, w.ResponseKey) {
			response, err := messagesAt(row, w.ResponseKey)
			return append(prompt, response...), err
		}
		response, err := textAt(row, w.ResponseKey)
		return append(prompt, trinity.Message{Role: "assistant", Content: response}), err
	case "chatpair":
		prompt, err := messagesAt(row, w.PromptKey)
		if err != nil {
			return nil, err
		}
		response, err := messagesAt(row, w.ResponseKey)
		return append(prompt, response...), err
	}
	return messagesAt(row, w.MessagesKey)
}

// isChatAt reports whether the value at a key is a list of messages.
func isChatAt(row *trinity.Task, key string) bool {
	v, _ := row.Field(key)
	list, _ := v.([]any)
	if len(list) == 0 {
		return false
	}
	first, _ := list[0].(map[string]any)
	return first["role"] != nil
}

// userAt returns a chat with the row's plain prompt as the user's message, or the row's list of
// messages in place of a text.
func userAt(row *trinity.Task) ([]trinity.Message, error) {
	if row.Format.PromptTemplate == "" && isChatAt(row, row.Format.PromptKey) {
		return messagesAt(row, row.Format.PromptKey)
	}
	text, err := promptOf(row)
	return []trinity.Message{{Role: "user", Content: text}}, err
}

// untilAssistant drops the messages after the assistant's last, because training learns nothing
// from them.
func untilAssistant(chat []trinity.Message) ([]trinity.Message, error) {
	for n := len(chat); n > 0; n-- {
		if chat[n-1].Role == "assistant" {
			return chat[:n:n], nil
		}
	}
	return nil, errors.New("a chat without a message of the assistant, which is what is learnt")
}

// write renders a chat. Training learns the assistant's messages among those that follow.
func (w writer) write(row *trinity.Task, given, follows []trinity.Message) (*trinity.Experience, error) {
	chat := append(given[:len(given):len(given)], follows...)
	system, err := row.System()
	if err != nil {
		return nil, err
	}
	if system != "" && chat[0].Role != "system" {
		chat = append([]trinity.Message{{Role: "system", Content: system}}, chat...)
	}
	tools, err := row.Tools()
	if err != nil {
		return nil, err
	}
	tokens, mask, err := w.renderer.RenderTraining(chat, tools)
	if err != nil {
		return nil, err
	}
	if prompt := chat[:len(chat)-len(follows)]; len(given) > 0 {
		known, err := w.renderer.Render(prompt, tools, true)
		if err != nil {
			return nil, err
		}
		clear(mask[:commonPrefix(known, tokens)])
	}
	e := &trinity.Experience{Tokens: tokens, Mask: mask, PromptLen: promptLen(mask), Response: chat[len(chat)-1].Content}
	if e.PromptLen == len(tokens) {
		return nil, errors.New("the chat has no token to learn: its last message of the assistant is empty, or the chat template " +
			"does not write it as a reply")
	}
	return e, e.Check()
}

// promptLen returns the number of tokens before the first that training learns.
func promptLen(mask []bool) int {
	for i, m := range mask {
		if m {
			return i
		}
	}
	return len(mask)
}

// commonPrefix returns how many leading tokens a and b share.
func commonPrefix(a, b []int32) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
