// Package anthropic holds the types of Anthropic's Messages API as servers and clients exchange them.
// Fields stand in the order of their JSON names.
package anthropic

import "encoding/json"

// Request is the body of POST /v1/messages and /v1/messages/count_tokens.
type Request struct {
	Compaction        json.RawMessage `json:"compaction,omitzero"`
	ContextManagement json.RawMessage `json:"context_management,omitzero"`
	Fallbacks         json.RawMessage `json:"fallbacks,omitzero"`
	MaxTokens         *int            `json:"max_tokens,omitzero"`
	Messages          []Message       `json:"messages"`
	Metadata          json.RawMessage `json:"metadata,omitzero"`
	Model             string          `json:"model"`
	// OutputConfig has effort, format and task_budget.
	OutputConfig  map[string]json.RawMessage `json:"output_config,omitzero"`
	ServiceTier   string                     `json:"service_tier,omitzero"`
	Speed         json.RawMessage            `json:"speed,omitzero"`
	StopSequences []string                   `json:"stop_sequences,omitzero"`
	Stream        bool                       `json:"stream,omitzero"`
	System        Content                    `json:"system,omitzero"`
	Temperature   *float32                   `json:"temperature,omitzero"`
	Thinking      Thinking                   `json:"thinking,omitzero"`
	ToolChoice    ToolChoice                 `json:"tool_choice,omitzero"`
	Tools         []Tool                     `json:"tools,omitzero"`
	TopK          *int                       `json:"top_k,omitzero"`
	TopP          *float32                   `json:"top_p,omitzero"`
}

// Thinking says whether the client wants the model's thinking.
type Thinking struct {
	Display string `json:"display,omitzero"` // summarized, updates, or omitted for blocks without their text
	Type    string `json:"type"`             // adaptive, enabled or disabled
}

// ToolChoice says whether a reply may or must call tools.
type ToolChoice struct {
	DisableParallelToolUse bool   `json:"disable_parallel_tool_use,omitzero"` // at most one call
	Name                   string `json:"name,omitzero"`                      // of the tool
	Type                   string `json:"type"`                               // auto, any, tool or none
}

// Message is one turn of a chat.
type Message struct {
	Content Content `json:"content"`
	Role    string  `json:"role"` // user, assistant, system
}

// Content is a list of blocks. In JSON it may be a text, which is one block.
type Content []Block

// UnmarshalJSON reads a text or a list of blocks.
func (c *Content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = Content{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]Block)(c))
}

// Block is a part of a message. Its Type says which fields it has.
type Block struct {
	Content   Content         `json:"content,omitzero"`     // of a tool_result
	ID        string          `json:"id,omitzero"`          // of a tool_use
	Input     json.RawMessage `json:"input,omitzero"`       // of a tool_use: a JSON object
	Name      string          `json:"name,omitzero"`        // of a tool_use
	Signature *string         `json:"signature,omitzero"`   // of a thinking; servers check it
	Source    *Source         `json:"source,omitzero"`      // of an image
	Text      string          `json:"text,omitzero"`        // of a text
	Thinking  *string         `json:"thinking,omitzero"`    // of a thinking
	ToolName  string          `json:"tool_name,omitzero"`   // of a tool_reference, a part of a tool_result
	ToolUseID string          `json:"tool_use_id,omitzero"` // of a tool_result
	Type      string          `json:"type"`
}

// Source is where an image is: in Data if Type is base64.
type Source struct {
	Data      string `json:"data,omitzero"`
	MediaType string `json:"media_type,omitzero"`
	Type      string `json:"type"`
	URL       string `json:"url,omitzero"`
}

// Tool is a tool that the model may call.
type Tool struct {
	DeferLoading bool            `json:"defer_loading,omitzero"` // the model sees it once a tool_reference names it
	Description  string          `json:"description,omitzero"`
	InputSchema  json.RawMessage `json:"input_schema,omitzero"`
	Name         string          `json:"name"`
	Type         string          `json:"type,omitzero"` // custom, or a tool of Anthropic's own servers
}

// Response is the reply to a request.
type Response struct {
	Content      []Block `json:"content"`
	ID           string  `json:"id"`
	Model        string  `json:"model"`
	Role         string  `json:"role"`                  // assistant
	SampledFrom  string  `json:"sampled_from,omitzero"` // an extension. constrained: a form has shaped the reply
	StopReason   *string `json:"stop_reason"`           // end_turn, max_tokens, stop_sequence or tool_use
	StopSequence *string `json:"stop_sequence"`         // that ended the reply
	Type         string  `json:"type"`                  // message
	Usage        Usage   `json:"usage"`
}

// Usage counts tokens.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
}

// Refusal is the body of a reply with an error status.
type Refusal struct {
	Error Error  `json:"error"`
	Type  string `json:"type"` // error
}

// Error says what went wrong.
type Error struct {
	Message string `json:"message"`
	Type    string `json:"type"`
}
