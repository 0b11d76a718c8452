package trinitytest

import (
	"encoding/json"
	"strings"

	"github.com/trinity-go/trinity"
)

// ChatEnd is the token that ends a turn of [Chat]. All other tokens are bytes.
const ChatEnd = 256

// Chat is a renderer for tests. It writes a chat as "role:content" with ChatEnd after each turn. It
// reads no calls and renders no training data: those methods are the caller's.
type Chat struct{ trinity.Renderer }

// Render implements trinity.Renderer.
func (c Chat) Render(messages []trinity.Message, _ json.RawMessage, generate bool) ([]int32, error) {
	var tokens []int32
	for _, m := range messages {
		tokens = append(append(tokens, c.Encode(m.Role+":"+m.Content)...), ChatEnd)
	}
	if generate {
		tokens = append(tokens, c.Encode("assistant:")...)
	}
	return tokens, nil
}

// RenderBegun returns the prompt of a chat whose last message the reply continues.
func (c Chat) RenderBegun(messages []trinity.Message) ([]int32, error) {
	tokens, err := c.Render(messages, nil, false)
	return tokens[:len(tokens)-1], err
}

// Bridge implements trinity.Renderer.
func (c Chat) Bridge(_, more []trinity.Message, tools json.RawMessage, ended bool) ([]int32, error) {
	tokens, err := c.Render(more, tools, true)
	if !ended {
		tokens = append([]int32{ChatEnd}, tokens...)
	}
	return tokens, err
}

// Encode implements trinity.Renderer.
func (Chat) Encode(text string) (tokens []int32) {
	for _, b := range []byte(text) {
		tokens = append(tokens, int32(b))
	}
	return tokens
}

// Decode implements trinity.Renderer.
func (Chat) Decode(tokens []int32) string {
	var text []byte
	for _, t := range tokens {
		if t != ChatEnd {
			text = append(text, byte(t))
		}
	}
	return string(text)
}

// ReadText implements trinity.Renderer.
func (c Chat) ReadText(tokens []int32) trinity.Message {
	return trinity.Message{Role: "assistant", Content: c.Decode(tokens)}
}

// Settled implements trinity.Renderer. What follows "!" may be a call.
func (c Chat) Settled(tokens []int32, tools json.RawMessage) trinity.Message {
	m := c.ReadText(tokens)
	for strings.HasSuffix(m.Content, "\uFFFD") {
		m.Content = strings.TrimSuffix(m.Content, "\uFFFD")
	}
	if len(tools) > 0 {
		m.Content, _, _ = strings.Cut(m.Content, "!")
	}
	return m
}

// StopTokens implements trinity.Renderer.
func (Chat) StopTokens() []int32 { return []int32{ChatEnd} }

// CallingChat is a [Chat] that reads calls: a reply "text!name{…}" calls a tool.
type CallingChat struct{ Chat }

// Read implements [trinity.Renderer].
func (c CallingChat) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m := c.ReadText(tokens)
	text, call, _ := strings.Cut(m.Content, "!")
	name, arguments, found := strings.Cut(call, "{")
	if !found {
		return m, nil, nil
	}
	m.Content = text
	return m, []trinity.ToolCall{{Name: name, Arguments: json.RawMessage("{" + arguments)}}, nil
}

// Continue is as that of the renderers of models, see [trinity.ContinueMessage].
func (c CallingChat) Continue(messages []trinity.Message, _ json.RawMessage) ([]int32, trinity.Renderer, error) {
	tokens, err := c.RenderBegun(messages)
	return tokens, c, err
}
