package trinity

import "encoding/json"

// Message is one turn of a chat, in the shape that OpenAI-compatible APIs and chat templates use.
type Message struct {
	Role       string          `json:"role"` // system, user, assistant, tool
	Content    string          `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
}

// Renderer turns messages into the token ids that a model reads, and back.
type Renderer interface {
	// Render returns the prompt of a chat; with generate the template's opening of the assistant's reply is appended. tools is a JSON array
	// of tool schemas or nil.
	Render(messages []Message, tools json.RawMessage, generate bool) ([]int32, error)
	// RenderTraining returns a whole chat [T] and the mask [T] of what the assistant wrote, end-of-turn token included.
	RenderTraining(messages []Message, tools json.RawMessage) (tokens []int32, mask []bool, err error)
	// Encode tokenizes plain text, special tokens recognised, with the model's beginning-of-sequence token if it uses one.
	Encode(text string) []int32
	// Decode returns the text of tokens without special tokens.
	Decode(tokens []int32) string
	// StopTokens are the ids that end a reply.
	StopTokens() []int32
}
