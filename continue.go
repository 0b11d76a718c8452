package trinity

import (
	"bytes"
	"encoding/json"
	"errors"
)

// ContinueMessage returns the tokens [n] that a policy reads before it continues the last message of a
// chat, which is the assistant's, and a renderer that reads the rest of the message.
func ContinueMessage(r Renderer, messages []Message, tools json.RawMessage) (prompt []int32, rest Renderer, err error) {
	if len(messages) == 0 || messages[len(messages)-1].Role != "assistant" {
		return nil, nil, errors.New("the chat does not end with a message of the assistant, so no reply continues it")
	}
	if calls := string(bytes.TrimSpace(messages[len(messages)-1].ToolCalls)); calls != "" && calls != "null" && calls != "[]" {
		return nil, nil, errors.New("the last message calls tools: add their results")
	}
	c, ok := r.(interface {
		Continue(messages []Message, tools json.RawMessage) (prompt []int32, rest Renderer, err error)
	})
	if !ok {
		return nil, nil, errors.New("this renderer cannot continue a message of the assistant")
	}
	return c.Continue(messages, tools)
}
