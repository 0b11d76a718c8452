package served

import (
	"encoding/json"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// completion returns the query as a request of /v1/completions. It names every parameter, because
// servers take others from the model's generation_config.json.
func (q *query) completion() openai.Request {
	topP, penalty, topK := orOne(q.TopP), orOne(q.RepetitionPenalty), q.TopK
	if topK <= 0 {
		topK = -1
	}
	r := openai.Request{
		Prompt: raw(q.prompt), MaxTokens: &q.MaxTokens, N: new(1), Seed: new(int64(q.Seed)), Temperature: &q.Temperature, TopP: &topP,
		Logprobs: raw(q.TopLogprobs), PresencePenalty: q.PresencePenalty, FrequencyPenalty: q.FrequencyPenalty, LogitBias: q.biases(),
		Extensions: openai.Extensions{
			IgnoreEOS: q.IgnoreEOS, MinP: &q.MinP, MinTokens: q.least(), RepetitionPenalty: &penalty, ReturnTokenIDs: true,
			ReturnTokensAsIDs: true, StopTokenIDs: q.stops(), TopK: &topK,
		},
	}
	if len(q.Stop) > 0 {
		r.Stop = raw(q.Stop)
	}
	return r
}

// sampling are the sampling parameters that servers of more than one kind give the same names.
type sampling struct {
	FrequencyPenalty  float32            `json:"frequency_penalty,omitzero"`
	IgnoreEOS         bool               `json:"ignore_eos,omitzero"`
	LogitBias         map[string]float32 `json:"logit_bias,omitzero"`
	MinP              float32            `json:"min_p,omitzero"`
	PresencePenalty   float32            `json:"presence_penalty,omitzero"`
	RepetitionPenalty float32            `json:"repetition_penalty"`
	Stop              []string           `json:"stop,omitzero"`
	StopTokenIDs      []int32            `json:"stop_token_ids,omitzero"`
	Temperature       float32            `json:"temperature"`
	TopP              float32            `json:"top_p"`
}

func (q *query) sampling() sampling {
	return sampling{
		q.FrequencyPenalty, q.IgnoreEOS, q.biases(), q.MinP, q.PresencePenalty, orOne(q.RepetitionPenalty), q.Stop, q.stops(), q.Temperature,
		orOne(q.TopP),
	}
}

// biases returns the bias of logits by the tokens' ids as texts; nil for none.
func (q *query) biases() map[string]float32 {
	if len(q.LogitBias) == 0 {
		return nil
	}
	all := map[string]float32{}
	for token, bias := range q.LogitBias {
		all[strconv.Itoa(int(token))] = bias
	}
	return all
}

// least returns the least number of tokens to ask a server for. One is no demand: the token that ends
// a reply counts, and servers take its probability away to meet it.
func (q *query) least() int {
	if q.MinTokens <= 1 {
		return 0
	}
	return q.MinTokens
}

func orOne(x float32) float32 {
	if x == 0 {
		return 1
	}
	return x
}

func raw(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and numbers have a form
	}
	return data
}

// choice reads a choice of /v1/completions with top most likely tokens.
func choice(c *openai.Choice, top int) (*answer, error) {
	read, err := c.Sampled()
	if err != nil {
		return nil, wrong{err}
	}
	a := &answer{tokens: c.TokenIDs}
	if a.tokens == nil {
		a.tokens = read.IDs
	}
	if c.FinishReason != nil {
		a.finish = *c.FinishReason
	}
	for i, value := range read.Logprobs {
		if err := a.place(openai.TokenID(read.Names[i]), float32(value), nil, 0); err != nil {
			return nil, err
		}
	}
	if c.Logprobs == nil || top == 0 {
		return a, nil
	}
	for _, at := range c.Logprobs.TopLogprobs {
		var likely []trinity.TokenLogprob
		for name, value := range at {
			likely = append(likely, trinity.TokenLogprob{Token: openai.TokenID(name), Logprob: value})
		}
		a.top = append(a.top, mostLikely(likely, top))
	}
	return a, nil
}
