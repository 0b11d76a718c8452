// Package openai holds the types of the OpenAI API as servers and clients exchange them, and a
// client. Fields stand in the order of their JSON names.
package openai

import (
	"encoding/json"

	"github.com/trinity-go/trinity"
)

// Request is the body of POST /v1/chat/completions and /v1/completions. A client does not send zero
// fields.
type Request struct {
	BestOf              *int               `json:"best_of,omitzero"`
	Echo                bool               `json:"echo,omitzero"`
	FrequencyPenalty    float32            `json:"frequency_penalty,omitzero"`
	LogitBias           map[string]float32 `json:"logit_bias,omitzero"` // by token id
	Logprobs            json.RawMessage    `json:"logprobs,omitzero"`   // true or false in a chat, a number otherwise
	MaxCompletionTokens *int               `json:"max_completion_tokens,omitzero"`
	MaxTokens           *int               `json:"max_tokens,omitzero"`
	Messages            []trinity.Message  `json:"messages,omitzero"`
	Model               string             `json:"model,omitzero"`
	N                   *int               `json:"n,omitzero"`
	ParallelToolCalls   *bool              `json:"parallel_tool_calls,omitzero"`
	PresencePenalty     float32            `json:"presence_penalty,omitzero"`
	Prompt              json.RawMessage    `json:"prompt,omitzero"` // text or token ids, or a list of them
	ResponseFormat      json.RawMessage    `json:"response_format,omitzero"`
	Seed                *int64             `json:"seed,omitzero"`
	Stop                json.RawMessage    `json:"stop,omitzero"` // one text or a list of texts
	Stream              bool               `json:"stream,omitzero"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options,omitzero"`
	Temperature *float32        `json:"temperature,omitzero"`
	ToolChoice  json.RawMessage `json:"tool_choice,omitzero"`
	Tools       json.RawMessage `json:"tools,omitzero"`
	TopLogprobs int             `json:"top_logprobs,omitzero"`
	TopP        *float32        `json:"top_p,omitzero"`

	Extensions
}

// Extensions are fields of vLLM, SGLang and llama.cpp. Strict servers refuse them.
type Extensions struct {
	AddGenerationPrompt  *bool `json:"add_generation_prompt,omitzero"`  // opens the reply; nil is true
	ContinueFinalMessage bool  `json:"continue_final_message,omitzero"` // the last message is the beginning of the reply
	Constraints
	IgnoreEOS         bool     `json:"ignore_eos,omitzero"`
	MinP              *float32 `json:"min_p,omitzero"`
	MinTokens         int      `json:"min_tokens,omitzero"`
	PromptLogprobs    *int     `json:"prompt_logprobs,omitzero"`
	RepetitionPenalty *float32 `json:"repetition_penalty,omitzero"`
	ReturnTokenIDs    bool     `json:"return_token_ids,omitzero"`
	ReturnTokensAsIDs bool     `json:"return_tokens_as_token_ids,omitzero"` // in Logprobs: "token_id:N"
	StopTokenIDs      []int32  `json:"stop_token_ids,omitzero"`
	TopK              *int     `json:"top_k,omitzero"` // -1 means all tokens
}

// Constraints are fields of vLLM, SGLang and llama.cpp that say what form the text of a reply has.
type Constraints struct {
	GuidedChoice      json.RawMessage `json:"guided_choice,omitzero"` // texts
	GuidedJSON        json.RawMessage `json:"guided_json,omitzero"`   // a schema, or its text
	GuidedRegex       json.RawMessage `json:"guided_regex,omitzero"`
	JSONSchema        json.RawMessage `json:"json_schema,omitzero"` // as GuidedJSON
	Regex             json.RawMessage `json:"regex,omitzero"`
	StructuredOutputs json.RawMessage `json:"structured_outputs,omitzero"` // an object of one of the above
}

// Response is the reply to a request, or one event of a stream.
type Response struct {
	Choices []Choice `json:"choices"`
	Created int64    `json:"created"` // seconds since 1970
	ID      string   `json:"id"`
	Model   string   `json:"model"`
	Object  string   `json:"object"`
	// PromptLogprobs are those of a chat: see [Choice].
	PromptLogprobs []map[string]PromptLogprob `json:"prompt_logprobs,omitzero"`
	PromptTokenIDs []int32                    `json:"prompt_token_ids,omitzero"`
	Usage          *Usage                     `json:"usage,omitempty"`
}

// Choice is one completion, or the next part of it in a stream. A reply sets one of Delta, Message
// and Text.
type Choice struct {
	Delta        *Message  `json:"delta,omitempty"` // of a chat's stream
	FinishReason *string   `json:"finish_reason"`   // nil until the completion ends
	Index        int       `json:"index"`
	Logprobs     *Logprobs `json:"logprobs"`
	Message      *Message  `json:"message,omitempty"` // of a chat
	// PromptLogprobs is an extension of vLLM: for each token of the prompt its entry and the entries of
	// the most likely tokens, by token id. The first token has none.
	PromptLogprobs []map[string]PromptLogprob `json:"prompt_logprobs,omitzero"`
	Recorded       *Recorded                  `json:"recorded,omitempty"`    // beside TokenIDs, if a rollout records the reply
	SampledFrom    string                     `json:"sampled_from,omitzero"` // constrained: a penalty, a bias or a form has shaped it
	SGLang         *SGLang                    `json:"sglext,omitzero"`
	Text           *string                    `json:"text,omitempty"` // of a plain completion
	TokenIDs       []int32                    `json:"token_ids,omitzero"`
	Versions       *[2]int64                  `json:"versions,omitempty"` // of the weights: the oldest and the newest
}

// Recorded says what a rollout keeps of a reply.
type Recorded struct {
	PromptLength int    `json:"prompt_length"` // tokens before the first reply of the sequence that ends with this one
	Text         string `json:"text"`          // of the tokens, also thinking and calls of tools
	Turn         int    `json:"turn"`          // number of the call
}

// Message is the assistant's reply. In a stream only the first part has a role.
type Message struct {
	Content          string     `json:"content"`
	ReasoningContent string     `json:"reasoning_content,omitempty"` // an extension of vLLM and others
	Role             string     `json:"role,omitempty"`
	ToolCalls        []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall is a call of a tool that the assistant wrote.
type ToolCall struct {
	Function FunctionCall `json:"function"`
	ID       string       `json:"id"`
	Index    *int         `json:"index,omitempty"` // in a stream
	Type     string       `json:"type"`            // function
}

// FunctionCall names a function and its arguments, a JSON object.
type FunctionCall struct {
	Arguments string `json:"arguments"`
	Name      string `json:"name"`
}

// Logprobs holds the log-probabilities of a reply in nats: Content in a chat, TokenLogprobs and
// Tokens in a plain completion. llama.cpp always uses Content.
type Logprobs struct {
	Content       []TokenLogprob `json:"content,omitzero"`
	TextOffset    []int          `json:"text_offset,omitzero"`    // of a plain completion: characters of Choice.Text before each token
	TokenLogprobs []*float32     `json:"token_logprobs,omitzero"` // nil for the first token of an echoed prompt
	Tokens        []string       `json:"tokens,omitzero"`
	// TopLogprobs are of a plain completion: for each token the most likely tokens and the token itself;
	// nil for the first token of an echoed prompt.
	TopLogprobs []map[string]float32 `json:"top_logprobs,omitzero"`
}

// TokenLogprob is one sampled token with its log-probability in nats.
type TokenLogprob struct {
	ID          *int32         `json:"id,omitzero"` // an extension of llama.cpp
	Logprob     float32        `json:"logprob"`
	Token       string         `json:"token"`
	TopLogprobs []TokenLogprob `json:"top_logprobs,omitzero"` // the most likely tokens at its place, which have none themselves
}

// PromptLogprob is the log-probability of a token at a position of the prompt, in nats. The most
// likely token has rank 1.
type PromptLogprob struct {
	DecodedToken string   `json:"decoded_token,omitzero"`
	Logprob      *float32 `json:"logprob"` // nil if the server has computed none
	Rank         *int     `json:"rank"`    // nil if the server does not know it
}

// SGLang is what SGLang adds to a choice.
type SGLang struct {
	OutputIDs []int32 `json:"output_ids"`
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
	Created     int64  `json:"created"`
	ID          string `json:"id"`
	MaxModelLen int    `json:"max_model_len,omitzero"` // tokens of the longest sequence: an extension of vLLM and SGLang
	Object      string `json:"object"`                 // model
	OwnedBy     string `json:"owned_by"`
}
