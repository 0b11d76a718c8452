package trinity

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Message is one turn of a chat, in the form that OpenAI-compatible APIs and chat templates use.
type Message struct {
	Role       string          `json:"role"` // system, user, assistant, tool
	Content    string          `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
}

// ToolCall is a call of a tool that the policy wrote.
type ToolCall struct {
	ID        string          // what the tool's answer names; unique within a chat
	Name      string          // of the tool
	Arguments json.RawMessage // a JSON object
}

// callEntry is a call as an entry of Message.ToolCalls.
type callEntry struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// MarshalJSON writes the call as an entry of Message.ToolCalls.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	entry := callEntry{ID: c.ID, Type: "function"}
	entry.Function.Name, entry.Function.Arguments = c.Name, c.Arguments
	return json.Marshal(entry)
}

// UnmarshalJSON reads an entry of Message.ToolCalls.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var entry callEntry
	if err := json.Unmarshal(data, &entry); err != nil {
		return err
	}
	*c = ToolCall{ID: entry.ID, Name: entry.Function.Name, Arguments: entry.Function.Arguments}
	return nil
}

// UnmarshalJSON reads a content that is a text, null, or a list of {"type":"text","text":"…"},
// whose texts it joins. Parts of another type and messages without a role are errors.
func (m *Message) UnmarshalJSON(data []byte) error {
	type plain Message
	in := struct {
		*plain
		Content json.RawMessage `json:"content"`
	}{plain: (*plain)(m)}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if m.Role == "" {
		return fmt.Errorf(`a message has no "role"`)
	}
	if len(in.Content) == 0 {
		return nil
	}
	if in.Content[0] != '[' {
		return json.Unmarshal(in.Content, &m.Content)
	}
	var parts []struct{ Type, Text string }
	if err := json.Unmarshal(in.Content, &parts); err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("a message has a part of type %q: want text", p.Type)
		}
		text.WriteString(p.Text)
	}
	m.Content = text.String()
	return nil
}

// Renderer turns messages into the token ids that a model reads, and back.
type Renderer interface {
	// Render returns the prompt of a chat. With generate, the prompt ends with the template's opening
	// of the assistant's reply. tools is a JSON array of tool schemas or nil.
	Render(messages []Message, tools json.RawMessage, generate bool) ([]int32, error)
	// RenderTraining returns a whole chat [T] and the mask [T] of the assistant's tokens, with its
	// end-of-turn tokens.
	RenderTraining(messages []Message, tools json.RawMessage) (tokens []int32, mask []bool, err error)
	// Bridge returns the tokens [n] between the policy's reply, which history ends with, and its next
	// reply: the template's end of a turn, the messages in more, and the opening of a reply. ended says
	// that the policy wrote the token that ends its turn. The error is ErrRewritesHistory if the
	// template writes earlier turns otherwise once more messages follow.
	Bridge(history, more []Message, tools json.RawMessage, ended bool) ([]int32, error)
	// Read reads the tokens of a reply: its reasoning, its content, and its calls of tools, without ids
	// if the format has none. tools is what the prompt was rendered with. The error says why a call
	// cannot be read; the message then has the reply's whole text.
	Read(tokens []int32, tools json.RawMessage) (Message, []ToolCall, error)
	// ReadText reads the tokens of a reply to a prompt without tools: what looks like a call is content.
	ReadText(tokens []int32) Message
	// Settled returns the reasoning and the content that a reply has whatever follows its first tokens.
	// What Read, or without tools ReadText, returns for the whole reply begins with them.
	Settled(tokens []int32, tools json.RawMessage) Message
	// Encode tokenizes plain text. It recognises special tokens, and adds the model's
	// beginning-of-sequence token if the model has one.
	Encode(text string) []int32
	// Decode returns the text of tokens without special tokens.
	Decode(tokens []int32) string
	// StopTokens returns the ids that end a reply.
	StopTokens() []int32
}
