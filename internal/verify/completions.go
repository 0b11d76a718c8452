package verify

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// completionRequest is the body of /v1/completions. Strict servers refuse the extensions.
type completionRequest struct {
	Model       string  `json:"model,omitempty"`
	Prompt      any     `json:"prompt"` // token ids, or text
	MaxTokens   int     `json:"max_tokens"`
	N           int     `json:"n"`
	Temperature float64 `json:"temperature"`
	TopP        float64 `json:"top_p"`
	Seed        int64   `json:"seed"`
	Logprobs    int     `json:"logprobs,omitempty"`
	Echo        bool    `json:"echo,omitempty"`

	*extensions
}

// extensions are fields of vLLM, SGLang and llama.cpp. For all three, top_k = -1 means all tokens.
// llama.cpp has defaults for top_k and min_p that leave out tokens.
type extensions struct {
	TopK                 int     `json:"top_k"`
	MinP                 float64 `json:"min_p"`
	RepetitionPenalty    float64 `json:"repetition_penalty"`
	ReturnTokenIDs       bool    `json:"return_token_ids"`
	TokensAsTokenIDs     bool    `json:"return_tokens_as_token_ids"`
	ReturnPromptTokenIDs bool    `json:"return_prompt_token_ids"`
	PromptLogprobs       *int    `json:"prompt_logprobs,omitempty"`
}

func newExtensions() *extensions {
	return &extensions{TopK: -1, RepetitionPenalty: 1, ReturnTokenIDs: true, TokensAsTokenIDs: true, ReturnPromptTokenIDs: true}
}

type completionResponse struct {
	Choices []*choice `json:"choices"`
}

// choice is one completion, with the fields of all supported servers.
type choice struct {
	Text           string                     `json:"text"`
	FinishReason   string                     `json:"finish_reason"`
	TokenIDs       []int32                    `json:"token_ids"`
	PromptTokenIDs []int32                    `json:"prompt_token_ids"`
	PromptLogprobs []map[string]promptLogprob `json:"prompt_logprobs"`
	Logprobs       *choiceLogprobs            `json:"logprobs"`
	SGLang         struct {
		InputIDs  []int32 `json:"input_ids"`
		OutputIDs []int32 `json:"output_ids"`
	} `json:"sglext"`
}

// promptLogprob is a value in vLLM's prompt_logprobs; the keys there are token ids.
type promptLogprob struct {
	Logprob float64 `json:"logprob"`
	Rank    int     `json:"rank"`
}

// choiceLogprobs holds the form of completions (tokens, token_logprobs, top_logprobs) or the form
// of chat (content). llama.cpp uses the form of chat everywhere.
type choiceLogprobs struct {
	Tokens        []string              `json:"tokens"`
	TokenLogprobs []*float64            `json:"token_logprobs"`
	TopLogprobs   []map[string]*float64 `json:"top_logprobs"`
	Content       []struct {
		ID      *int32  `json:"id"`
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
	} `json:"content"`
}

// parts are the tokens of a choice and their log-probabilities. They include the prompt if the
// server echoes it.
type parts struct {
	names    []string  // as the server writes the tokens
	logprobs []float64 // NaN where there is none
	ids      []int32   // nil if the server does not report them
}

// parts reads the tokens of a choice. It returns nil if the choice has neither log-probabilities
// nor ids.
func (c *choice) parts() (*parts, error) {
	p := &parts{}
	if l := c.Logprobs; l != nil {
		if err := p.read(l); err != nil {
			return nil, err
		}
	}
	ids := c.TokenIDs
	if ids == nil {
		ids = c.SGLang.OutputIDs
	}
	switch {
	case ids != nil && p.names == nil:
		p.ids = ids
		p.logprobs = nil
	case ids != nil && len(ids) == len(p.names):
		p.ids = ids
	case p.names == nil:
		return nil, nil
	}
	return p, nil
}

func (p *parts) read(l *choiceLogprobs) error {
	if len(l.TokenLogprobs) > 0 && len(l.TokenLogprobs) != len(l.Tokens) {
		return fmt.Errorf("%d token_logprobs for %d tokens", len(l.TokenLogprobs), len(l.Tokens))
	}
	for i, name := range l.Tokens {
		value := math.NaN()
		if len(l.TokenLogprobs) > 0 && l.TokenLogprobs[i] != nil {
			value = *l.TokenLogprobs[i]
		}
		p.add(name, value, tokenID(name))
	}
	for _, c := range l.Content {
		id := tokenID(c.Token)
		if c.ID != nil {
			id = *c.ID
		}
		p.add(c.Token, c.Logprob, id)
	}
	if len(p.ids) != len(p.names) {
		p.ids = nil
	}
	return nil
}

func (p *parts) add(name string, logprob float64, id int32) {
	p.names = append(p.names, name)
	p.logprobs = append(p.logprobs, logprob)
	if id >= 0 {
		p.ids = append(p.ids, id)
	}
}

// tokenID returns N for the name "token_id:N", which servers use if a request asks for ids, and -1
// for other names.
func tokenID(name string) int32 {
	digits, ok := strings.CutPrefix(name, "token_id:")
	id, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil {
		return -1
	}
	return int32(id)
}

// scored reads vLLM's prompt_logprobs. It returns the log-probabilities of the given tokens and the
// most likely token at each position.
func scored(tokens []int32, given []map[string]promptLogprob) (logprobs []float64, best []int32, err error) {
	if len(given) != len(tokens) {
		return nil, nil, fmt.Errorf("%d prompt_logprobs for %d tokens of the prompt", len(given), len(tokens))
	}
	logprobs, best = make([]float64, len(tokens)), make([]int32, len(tokens))
	for t, token := range tokens {
		logprobs[t], best[t] = math.NaN(), -1
		for key, value := range given[t] {
			id, err := strconv.ParseInt(key, 10, 32)
			if err != nil || id < 0 {
				return nil, nil, fmt.Errorf("prompt_logprobs: %q is not a token id", key)
			}
			if int32(id) == token {
				logprobs[t] = value.Logprob
			}
			if value.Rank == 1 {
				best[t] = int32(id)
			}
		}
		if t > 0 && math.IsNaN(logprobs[t]) {
			return nil, nil, fmt.Errorf("prompt_logprobs: position %d lacks the prompt's token %d", t, token)
		}
	}
	return logprobs, best, nil
}

// check returns an error if the answer has no completions.
func (r *completionResponse) check() error {
	if len(r.Choices) == 0 {
		return fmt.Errorf("%w: there are no choices", errAnswer)
	}
	for _, c := range r.Choices {
		if c == nil {
			return fmt.Errorf("%w: a choice is null", errAnswer)
		}
	}
	return nil
}
