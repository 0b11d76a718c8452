package openai

import "encoding/json"

// ResponsesRequest is the body of POST /v1/responses.
type ResponsesRequest struct {
	Include            []string          `json:"include,omitzero"` // message.output_text.logprobs
	Input              Items             `json:"input"`
	Instructions       string            `json:"instructions,omitzero"`
	MaxOutputTokens    *int              `json:"max_output_tokens,omitzero"`
	Metadata           map[string]string `json:"metadata,omitzero"` // which the reply repeats
	Model              string            `json:"model"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls,omitzero"`
	PreviousResponseID string            `json:"previous_response_id,omitzero"`
	Reasoning          struct {
		Effort string `json:"effort,omitzero"`
	} `json:"reasoning,omitzero"`
	Store       *bool    `json:"store,omitzero"` // false: the response is not kept
	Stream      bool     `json:"stream,omitzero"`
	Temperature *float32 `json:"temperature,omitzero"`
	Text        struct {
		Format struct {
			Schema json.RawMessage `json:"schema,omitzero"` // of a json_schema
			Type   string          `json:"type"`            // text, json_object or json_schema
		} `json:"format,omitzero"`
		Verbosity string `json:"verbosity,omitzero"`
	} `json:"text,omitzero"`
	ToolChoice json.RawMessage `json:"tool_choice,omitzero"` // "auto", "none", "required" or an object
	Tools      []ResponsesTool `json:"tools,omitzero"`
	// TopLogprobs is how many likely tokens the log-probabilities have at each place.
	TopLogprobs int      `json:"top_logprobs,omitzero"`
	TopP        *float32 `json:"top_p,omitzero"`
}

// Items are parts of a chat. In JSON they may be a text, which is one message of the user.
type Items []Item

// UnmarshalJSON reads a text or a list of items.
func (i *Items) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*i = Items{{Type: "message", Role: "user", Content: Parts{{Type: "input_text", Text: text}}}}
		return nil
	}
	return json.Unmarshal(data, (*[]Item)(i))
}

// Item is a part of a chat. Its Type says which fields it has.
type Item struct {
	Arguments *string `json:"arguments,omitzero"` // of a function_call: a JSON object, or "" where a stream begins it
	CallID    string  `json:"call_id,omitzero"`   // of a function_call and its function_call_output
	Content   Parts   `json:"content,omitzero"`   // of a message or a reasoning
	ID        string  `json:"id,omitzero"`
	Name      string  `json:"name,omitzero"`   // of a function_call
	Output    Parts   `json:"output,omitzero"` // of a function_call_output
	Role      string  `json:"role,omitzero"`   // of a message: system, developer, user, assistant
	Status    string  `json:"status,omitzero"`
	// Summary is that of a reasoning, which servers must write.
	Summary []json.RawMessage `json:"summary,omitzero"`
	Type    string            `json:"type,omitzero"` // "" is a message
}

// ItemList is a page of items.
type ItemList struct {
	Data    []Item  `json:"data"`
	FirstID *string `json:"first_id"`
	HasMore bool    `json:"has_more"`
	LastID  *string `json:"last_id"`
	Object  string  `json:"object"` // list
}

// Parts are the content of an item. In JSON they may be a text.
type Parts []Part

// UnmarshalJSON reads a text or a list of parts.
func (p *Parts) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*p = Parts{{Type: "input_text", Text: text}}
		return nil
	}
	return json.Unmarshal(data, (*[]Part)(p))
}

// Part is a part of an item's content.
type Part struct {
	Annotations []json.RawMessage `json:"annotations,omitzero"` // of an output_text
	ImageURL    string            `json:"image_url,omitzero"`   // of an input_image
	Logprobs    []TokenLogprob    `json:"logprobs,omitzero"`    // of an output_text: those of the tokens of the reply
	Text        string            `json:"text"`
	Type        string            `json:"type"` // input_text, input_image, output_text, reasoning_text
}

// ResponsesTool is a tool that the model may call.
type ResponsesTool struct {
	Description string          `json:"description,omitzero"`
	Name        string          `json:"name"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
	Type        string          `json:"type"` // function, or a tool of OpenAI's own servers
}

// ResponsesReply is the reply to a ResponsesRequest.
type ResponsesReply struct {
	CreatedAt          int64             `json:"created_at"` // seconds since 1970
	Error              *Error            `json:"error"`
	ID                 string            `json:"id"`
	IncompleteDetails  *IncompleteReason `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	Metadata           map[string]string `json:"metadata"`
	Model              string            `json:"model"`
	Object             string            `json:"object"` // response
	Output             []Item            `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	SampledFrom        string            `json:"sampled_from,omitzero"` // constrained: a form has shaped the reply
	Status             string            `json:"status"`                // in_progress, completed, incomplete, failed
	Temperature        *float32          `json:"temperature"`
	ToolChoice         string            `json:"tool_choice"`
	Tools              []ResponsesTool   `json:"tools"`
	TopP               *float32          `json:"top_p"`
	Usage              *ResponsesUsage   `json:"usage"`
}

// IncompleteReason says why a reply is incomplete.
type IncompleteReason struct {
	Reason string `json:"reason"` // max_output_tokens
}

// ResponsesUsage counts the tokens of a request and its reply.
type ResponsesUsage struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}
