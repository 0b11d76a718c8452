// Package tinker is the wire format of the Tinker API: messages of protobuf for what is computed, JSON for the rest, as
// version 0.38.0 of the SDK writes and reads them.
package tinker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
)

// CreateSession begins a session of a client.
type CreateSession struct {
	Tags         []string       `json:"tags"`
	UserMetadata map[string]any `json:"user_metadata"`
	SDKVersion   string         `json:"sdk_version"`
	ProjectID    string         `json:"project_id,omitempty"`
	DisplayName  string         `json:"display_name,omitempty"`
	Type         string         `json:"type"`
}

// Session answers CreateSession. The client logs the messages.
type Session struct {
	Type           string  `json:"type"`
	SessionID      string  `json:"session_id"`
	InfoMessage    *string `json:"info_message"`
	WarningMessage *string `json:"warning_message"`
	ErrorMessage   *string `json:"error_message"`
}

// LoRAConfig says which adapter to train.
type LoRAConfig struct {
	Rank         int    `json:"rank"`
	Seed         *int64 `json:"seed,omitempty"`
	TrainUnembed *bool  `json:"train_unembed,omitempty"` // nil is true, also below
	TrainMLP     *bool  `json:"train_mlp,omitempty"`
	TrainAttn    *bool  `json:"train_attn,omitempty"`
}

// OptimizerConfig names the optimizer of a model: adamw, or another one.
type OptimizerConfig struct {
	Type    string `json:"type"`
	Version int    `json:"version,omitempty"`
}

// CreateModel asks for a model to train. Its id is SESSION:train:MODEL_SEQ_ID.
type CreateModel struct {
	SessionID       string           `json:"session_id"`
	ModelSeqID      *int             `json:"model_seq_id"`
	BaseModel       string           `json:"base_model"`
	UserMetadata    map[string]any   `json:"user_metadata,omitempty"`
	LoRA            *LoRAConfig      `json:"lora_config,omitempty"`
	OptimizerConfig *OptimizerConfig `json:"optimizer_config,omitempty"`
	Type            string           `json:"type"`
}

// Info answers a question about a model.
type Info struct {
	Type      string    `json:"type"`
	ModelID   string    `json:"model_id"`
	ModelData ModelData `json:"model_data"`
	ModelName string    `json:"model_name"`
	IsLoRA    bool      `json:"is_lora"`
	LoRARank  int       `json:"lora_rank"`
}

// ModelData says what the client needs of a model: TokenizerID is what it opens.
type ModelData struct {
	Arch        string `json:"arch,omitempty"`
	ModelName   string `json:"model_name"`
	TokenizerID string `json:"tokenizer_id"`
}

// OptimStep applies the gradient that the passes since the last step have added up.
type OptimStep struct {
	ModelID string `json:"model_id"`
	SeqID   int32  `json:"seq_id"`
	// Adam has learning_rate, beta1, beta2, eps, weight_decay (decoupled) and grad_clip_norm (0 clips nothing). One that is
	// left out has its default, and nil is a number that JSON does not have.
	Adam  map[string]*float64 `json:"adam_params,omitempty"`
	Other *OptimizerConfig    `json:"optimizer_params,omitempty"` // of an optimizer that is not Adam
	Type  string              `json:"type"`
}

// SaveWeights asks for a checkpoint: of the whole training state, for samplers, or as files of Hugging Face.
type SaveWeights struct {
	ModelID      string            `json:"model_id"`
	Path         string            `json:"path,omitempty"` // the name; "" is of a session of a sampler
	SamplerSeqID *int              `json:"sampling_session_seq_id,omitempty"`
	Kind         string            `json:"kind,omitempty"`
	SeqID        int32             `json:"seq_id"`
	TTLSeconds   *int64            `json:"ttl_seconds,omitempty"`
	Overwrite    bool              `json:"overwrite"`
	UserMetadata map[string]string `json:"user_metadata,omitempty"`
	Type         string            `json:"type"`
}

// SavedWeights answers SaveWeights. It has one of its first two fields.
type SavedWeights struct {
	Path              *string `json:"path"`
	SamplingSessionID string  `json:"sampling_session_id,omitempty"`
	Type              string  `json:"type"`
}

// LoadWeights loads a checkpoint into a model, or makes a model of it if ModelSeqID is given.
type LoadWeights struct {
	SessionID    string         `json:"session_id,omitempty"`
	ModelSeqID   *int           `json:"model_seq_id,omitempty"`
	ModelID      string         `json:"model_id,omitempty"`
	SeqID        int32          `json:"seq_id,omitempty"`
	Path         string         `json:"path"`
	Optimizer    bool           `json:"optimizer"` // its moments, too
	BaseModel    string         `json:"base_model,omitempty"`
	UserMetadata map[string]any `json:"user_metadata,omitempty"`
	AccessToken  string         `json:"weights_access_token,omitempty"`
	Type         string         `json:"type"`
}

// CreateSampler asks for a session that samples from a base model, or from a checkpoint.
type CreateSampler struct {
	SessionID    string `json:"session_id"`
	SamplerSeqID *int   `json:"sampling_session_seq_id"`
	BaseModel    string `json:"base_model,omitempty"`
	ModelPath    string `json:"model_path,omitempty"`
	Type         string `json:"type"`
}

// Sample asks for continuations of a prompt.
type Sample struct {
	NumSamples          int            `json:"num_samples"`
	Prompt              Prompt         `json:"prompt"`
	Params              SamplingParams `json:"sampling_params"`
	SamplingSessionID   string         `json:"sampling_session_id,omitempty"`
	SeqID               *int64         `json:"seq_id,omitempty"`
	PromptLogprobs      bool           `json:"prompt_logprobs"`
	TopPromptLogprobs   int            `json:"topk_prompt_logprobs"`
	TopSampleLogprobs   int            `json:"topk_sample_logprobs"`
	PromptTargets       *PromptTargets `json:"target_prompt_logprobs,omitempty"`
	PromptAlternatives  int            `json:"prompt_alt_tokens_k,omitempty"`
	PromptLogprobsLast  *int           `json:"prompt_logprobs_last_n,omitempty"`
	RecordStabilityInfo bool           `json:"record_stability_info,omitempty"`
	BaseModel           string         `json:"base_model,omitempty"`
	ModelPath           string         `json:"model_path,omitempty"`
	Type                string         `json:"type"`
}

// Prompt is a sequence in JSON.
type Prompt struct {
	Chunks []PromptChunk `json:"chunks"`
}

// PromptChunk is a part of it. Type is encoded_text for one of Tokens.
type PromptChunk struct {
	Type   string  `json:"type"`
	Tokens []int32 `json:"tokens,omitempty"`
}

// Tokens returns the ids of a prompt. It is an error if a chunk is no text.
func (p Prompt) Tokens() ([]int32, error) {
	var all []int32
	for i, c := range p.Chunks {
		if c.Type != "encoded_text" {
			return nil, fmt.Errorf("chunk %d of the prompt is of type %.40q: this server reads encoded_text alone", i, c.Type)
		}
		all = append(all, c.Tokens...)
	}
	return all, nil
}

// SamplingParams say how to sample. Nil is the default.
type SamplingParams struct {
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *Seed    `json:"seed,omitempty"`
	Stop        *Stop    `json:"stop,omitempty"` // nil stops at the model's own tokens; an empty one stops nowhere
	Temperature *float32 `json:"temperature,omitempty"`
	TopK        *int     `json:"top_k,omitempty"`
	TopP        *float32 `json:"top_p,omitempty"`
}

// Seed is a seed of 64 bits. A client may write one below 0.
type Seed uint64

// UnmarshalJSON reads an integer of 64 bits, with or without a sign.
func (s *Seed) UnmarshalJSON(data []byte) error {
	if n, err := strconv.ParseUint(string(data), 10, 64); err == nil {
		*s = Seed(n)
		return nil
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return errors.New("seed: want an integer of 64 bits")
	}
	*s = Seed(n)
	return nil
}

// Stop are texts or tokens behind which sampling ends.
type Stop struct {
	Texts  []string
	Tokens []int32
}

// UnmarshalJSON reads a text, a list of texts, or a list of tokens.
func (s *Stop) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		s.Texts = []string{one}
		return nil
	}
	if json.Unmarshal(data, &s.Texts) == nil {
		return nil
	}
	s.Texts = nil
	if json.Unmarshal(data, &s.Tokens) != nil {
		return errors.New("stop: want a text, a list of texts, or a list of tokens")
	}
	return nil
}

// MarshalJSON writes a list.
func (s Stop) MarshalJSON() ([]byte, error) {
	if s.Tokens != nil {
		return json.Marshal(s.Tokens)
	}
	return json.Marshal(append([]string{}, s.Texts...))
}

// Submitted answers a call that is computed later.
type Submitted struct {
	RequestID         string   `json:"request_id"`
	ModelID           string   `json:"model_id,omitempty"`
	SampleSequenceIDs []string `json:"sample_sequence_ids,omitempty"` // one a sample
}

// RetrieveFuture asks for the result of such a call.
type RetrieveFuture struct {
	RequestID         string `json:"request_id"`
	AllowMetadataOnly bool   `json:"allow_metadata_only"`
}

// TryAgain answers RetrieveFuture while there is no result.
type TryAgain struct {
	Type             string `json:"type"`
	RequestID        string `json:"request_id"`
	QueueState       string `json:"queue_state"`
	QueueStateReason string `json:"queue_state_reason,omitempty"` // the client logs it
}

// Failed is the result of a call that has failed. Category is user or server.
type Failed struct {
	Error    string `json:"error"`
	Category string `json:"category"`
}

// Decode reads a body of JSON into v. It tolerates fields that v has not: each release of the SDK adds some.
func Decode(body []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	err := d.Decode(v)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		if wrong.Field == "" {
			return fmt.Errorf("got %s, want %s", wrong.Value, kindOf(wrong.Type))
		}
		return fmt.Errorf("%s: got %s, want %s", wrong.Field, wrong.Value, kindOf(wrong.Type))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty: want JSON")
	}
	if wrong := (*json.SyntaxError)(nil); errors.As(err, &wrong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is not JSON: %w", err)
	}
	if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) { // More takes a brace for the end
		return errors.New("it has more than one value")
	}
	return nil
}

// kindOf returns what JSON calls a type.
func kindOf(t reflect.Type) string {
	switch k := t.Kind(); {
	case k == reflect.Pointer:
		return kindOf(t.Elem())
	case k == reflect.String:
		return "a string"
	case k == reflect.Bool:
		return "true or false"
	case reflect.Int <= k && k <= reflect.Uint64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	case k == reflect.Slice || k == reflect.Array:
		return "an array"
	}
	return "an object"
}
