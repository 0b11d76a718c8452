package verify

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/wire/openai"
)

// parts are the tokens of a choice and their log-probabilities. They include the prompt if the
// server echoes it.
type parts struct {
	names    []string  // as the server writes the tokens
	logprobs []float64 // NaN where there is none
	ids      []int32   // nil if the server does not report them
}

// partsOf reads the tokens of a choice.
func partsOf(c *openai.Choice) (*parts, error) {
	p := &parts{}
	if l := c.Logprobs; l != nil {
		if err := p.read(l); err != nil {
			return nil, err
		}
	}
	ids := c.TokenIDs
	if ids == nil && c.SGLang != nil {
		ids = c.SGLang.OutputIDs
	}
	if p.names == nil || len(ids) == len(p.names) {
		p.ids = ids
	}
	return p, nil
}

func (p *parts) read(l *openai.Logprobs) error {
	if len(l.TokenLogprobs) > 0 && len(l.TokenLogprobs) != len(l.Tokens) {
		return fmt.Errorf("%d token_logprobs for %d tokens", len(l.TokenLogprobs), len(l.Tokens))
	}
	for i, name := range l.Tokens {
		value := math.NaN()
		if len(l.TokenLogprobs) > 0 && l.TokenLogprobs[i] != nil {
			value = float64(*l.TokenLogprobs[i])
		}
		p.add(name, value, tokenID(name))
	}
	for _, c := range l.Content {
		id := tokenID(c.Token)
		if c.ID != nil {
			id = *c.ID
		}
		p.add(c.Token, float64(c.Logprob), id)
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
func scored(tokens []int32, given []map[string]openai.PromptLogprob) (logprobs []float64, best []int32, err error) {
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
				logprobs[t] = float64(value.Logprob)
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
