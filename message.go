package trinity

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Message is one turn of a chat, in the form that OpenAI-compatible APIs and chat templates use.
type Message struct {
	Role       string          `json:"role"` // system, user, assistant, tool
	Content    string          `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"` // read under each of reasoningKeys
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
	// Parts are the texts and images of a content with images, in order; nil for a text alone. Content is
	// the texts, joined. [Message.ContentParts] also has what was put around Content since. It is read
	// only, because copies share it.
	Parts []Part `json:"-"`
	// Extra has the other keys of a message that was read, such as weight and tool_plan, unless they are
	// null. Under "content" it has a content that is no text: null, the list of parts whose texts Content
	// joins, or nothing for a message without the key. It is read only, because copies share it.
	Extra map[string]json.RawMessage `json:"-"`
}

// Part is a part of a message: a text or an image.
type Part struct {
	Text  string
	Image string // digest of a canonical image, sha256:HEX; "" for a text
}

// ContentParts returns Parts, with the text that was put before or behind Content since. A message
// without images has one text. If the text of a message with images was replaced, the error says so:
// the places of the images in the new text are not known. If the parts have no text, the new text lies
// behind the images; [Message.Prepend] puts it before them.
func (m Message) ContentParts() ([]Part, error) {
	if m.Parts == nil {
		return []Part{{Text: m.Content}}, nil
	}
	var text strings.Builder
	for _, p := range m.Parts {
		text.WriteString(p.Text)
	}
	if more, ok := strings.CutPrefix(m.Content, text.String()); ok {
		if more == "" {
			return m.Parts, nil
		}
		return append(slices.Clone(m.Parts), Part{Text: more}), nil
	}
	if more, ok := strings.CutSuffix(m.Content, text.String()); ok {
		return append([]Part{{Text: more}}, m.Parts...), nil
	}
	return nil, fmt.Errorf("the text of a message of the %s with images was replaced: put text before or behind it only", m.Role)
}

// Prepend puts text before all that the message says and shows.
func (m *Message) Prepend(text string) {
	m.Content = text + m.Content
	if m.Parts != nil {
		m.Parts = append([]Part{{Text: text}}, m.Parts...)
	}
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

// Renderer turns messages into the token ids that a model reads, and back.
type Renderer interface {
	// Render returns the prompt of a chat. With generate, the prompt ends with the template's opening
	// of the assistant's reply. tools is a JSON array of tool schemas or nil.
	Render(messages []Message, tools json.RawMessage, generate bool) ([]int32, error)
	// RenderTraining returns the chat up to the last message that training learns [T], and the mask [T]
	// of the learned tokens, end-of-turn tokens included. learn [len(messages)] says which of the
	// assistant's messages these are. The error is ErrRewritesHistory if the template writes several of
	// them otherwise in one chat than as a reply; each alone has a sequence. A key of a message that the
	// template does not read is an error.
	RenderTraining(messages []Message, tools json.RawMessage, learn []bool) (tokens []int32, mask []bool, err error)
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
