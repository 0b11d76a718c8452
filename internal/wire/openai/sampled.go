package openai

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sampled are the tokens of a choice and their log-probabilities. They include the prompt if the
// server echoes it.
type Sampled struct {
	Names    []string  // as the server writes the tokens
	Logprobs []float64 // [n] nats; NaN where there is none; nil if the server reports none
	IDs      []int32   // [n]; nil if the server does not report them
}

// Sampled reads the tokens of a choice in any form that a server of the API reports them in.
func (c *Choice) Sampled() (*Sampled, error) {
	s := &Sampled{}
	if l := c.Logprobs; l != nil {
		var err error
		if s, err = l.Sampled(); err != nil {
			return nil, err
		}
	}
	ids := c.TokenIDs
	if ids == nil && c.SGLang != nil {
		ids = c.SGLang.OutputIDs
	}
	if s.Names == nil || len(ids) == len(s.Names) {
		s.IDs = ids
	}
	return s, nil
}

// Sampled reads the tokens that the log-probabilities name.
func (l *Logprobs) Sampled() (*Sampled, error) {
	p := &Sampled{}
	if len(l.TokenLogprobs) > 0 && len(l.TokenLogprobs) != len(l.Tokens) {
		return nil, fmt.Errorf("%d token_logprobs for %d tokens", len(l.TokenLogprobs), len(l.Tokens))
	}
	for i, name := range l.Tokens {
		value := math.NaN()
		if len(l.TokenLogprobs) > 0 && l.TokenLogprobs[i] != nil {
			value = float64(*l.TokenLogprobs[i])
		}
		p.add(name, value, TokenID(name))
	}
	for _, c := range l.Content {
		id := TokenID(c.Token)
		if c.ID != nil {
			id = *c.ID
		}
		p.add(c.Token, float64(c.Logprob), id)
	}
	if len(p.IDs) != len(p.Names) {
		p.IDs = nil
	}
	return p, nil
}

func (p *Sampled) add(name string, logprob float64, id int32) {
	p.Names = append(p.Names, name)
	p.Logprobs = append(p.Logprobs, logprob)
	if id >= 0 {
		p.IDs = append(p.IDs, id)
	}
}

// TokenID returns N for the name "token_id:N", which servers use if a request asks for ids, and -1
// for other names.
func TokenID(name string) int32 {
	digits, ok := strings.CutPrefix(name, "token_id:")
	id, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil {
		return -1
	}
	return int32(id)
}
