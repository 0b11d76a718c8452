// Package openai holds the types of the OpenAI API as servers and clients exchange them, and a
// client. Fields stand in the order of their JSON names.
package openai

import (
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// Request is the body of POST /v1/chat/completions and /v1/completions. It includes extensions of
// vLLM: top_k, min_p, repetition_penalty, stop_token_ids, ignore_eos, return_token_ids.
type Request struct {
	Echo                bool              `json:"echo"`
	FrequencyPenalty    float64           `json:"frequency_penalty"`
	IgnoreEOS           bool              `json:"ignore_eos"`
	Logprobs            json.RawMessage   `json:"logprobs"` // true or false in a chat, a number otherwise
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	MaxTokens           *int              `json:"max_tokens"`
	Messages            []trinity.Message `json:"messages"`
	MinP                *float32          `json:"min_p"`
	MinTokens           int               `json:"min_tokens"`
	Model               string            `json:"model"`
	N                   *int              `json:"n"`
	PresencePenalty     float64           `json:"presence_penalty"`
	Prompt              json.RawMessage   `json:"prompt"` // text or token ids
	RepetitionPenalty   *float32          `json:"repetition_penalty"`
	ReturnTokenIDs      bool              `json:"return_token_ids"`
	Seed                *int64            `json:"seed"`
	Stop                json.RawMessage   `json:"stop"` // one text or a list of texts
	StopTokenIDs        []int32           `json:"stop_token_ids"`
	Stream              bool              `json:"stream"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature *float32        `json:"temperature"`
	Tools       json.RawMessage `json:"tools"`
	TopK        *int            `json:"top_k"`
	TopLogprobs int             `json:"top_logprobs"`
	TopP        *float32        `json:"top_p"`
}

// Response is the reply to a request, or one event of a stream.
type Response struct {
	Choices        []Choice `json:"choices"`
	Created        int64    `json:"created"` // seconds since 1970
	ID             string   `json:"id"`
	Model          string   `json:"model"`
	Object         string   `json:"object"`
	PromptTokenIDs []int32  `json:"prompt_token_ids,omitzero"`
	Usage          *Usage   `json:"usage,omitempty"`
}

// Choice is one completion, or the next part of it in a stream. A reply sets one of Delta, Message
// and Text.
type Choice struct {
	Delta        *Message  `json:"delta,omitempty"` // of a chat's stream
	FinishReason *string   `json:"finish_reason"`   // nil until the completion ends
	Index        int       `json:"index"`
	Logprobs     any       `json:"logprobs"`          // *ChatLogprobs, *TextLogprobs or nil
	Message      *Message  `json:"message,omitempty"` // of a chat
	Text         *string   `json:"text,omitempty"`    // of a plain completion
	TokenIDs     []int32   `json:"token_ids,omitzero"`
	Versions     *[2]int64 `json:"versions,omitempty"` // of the weights: the oldest and the newest
}

// Message is the assistant's reply. In a stream only the first part has a role.
type Message struct {
	Content string `json:"content"`
	Role    string `json:"role,omitempty"`
}

// ChatLogprobs holds the log-probabilities of a chat's reply.
type ChatLogprobs struct {
	Content []TokenLogprob `json:"content"`
}

// TokenLogprob is one sampled token with its log-probability in nats.
type TokenLogprob struct {
	Logprob     float32        `json:"logprob"`
	Token       string         `json:"token"`
	TopLogprobs []TokenLogprob `json:"top_logprobs"`
}

// TextLogprobs holds the log-probabilities of a plain completion in nats.
type TextLogprobs struct {
	TokenLogprobs []float32            `json:"token_logprobs"`
	Tokens        []string             `json:"tokens"`
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
}

// Usage counts the tokens of a request and its reply.
type Usage struct {
	CompletionTokens int `json:"completion_tokens"`
	PromptTokens     int `json:"prompt_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// Refusal is the body of a reply with an error status.
type Refusal struct {
	Error Error `json:"error"`
}

// Error says what went wrong.
type Error struct {
	Code    *string `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"` // the field of the request
	Type    string  `json:"type"`
}

// Models is the reply to GET /v1/models.
type Models struct {
	Data   []Model `json:"data"`
	Object string  `json:"object"` // list
}

// Model is one served model.
type Model struct {
	Created int64  `json:"created"`
	ID      string `json:"id"`
	Object  string `json:"object"` // model
	OwnedBy string `json:"owned_by"`
}
