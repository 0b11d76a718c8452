package trinity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// write writes the words of a completion as the tokens [n] that the chat template makes of them, and returns which of these
// training learns. It is an error if the tokens do not continue the prompt, or do not read as the words again.
func (m *Model) write(prompt Prompt, c *Completion) (mask []bool, err error) {
	if prompt.Messages == nil {
		return nil, errors.New("the sampler gave words for a prompt of tokens")
	}
	messages := append(slices.Clip(prompt.Messages), *c.Words)
	learn := make([]bool, len(messages))
	learn[len(prompt.Messages)] = true
	tokens, learnt, err := m.Renderer.RenderTraining(messages, prompt.Tools, learn)
	begin, end := len(prompt.Tokens), len(tokens)
	for ; end > begin && !learnt[end-1]; end-- { // what closes a turn is not learnt
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("writing the reply of %s as tokens: %w", c.Source, err)
	case end <= begin || !slices.Equal(tokens[:begin], prompt.Tokens):
		return nil, fmt.Errorf("the chat template begins the reply of %s otherwise than it opens a reply", c.Source)
	case c.FinishReason == "length" && c.Words.Content == "" && c.Words.Reasoning != "":
		return nil, fmt.Errorf("the reply of %s was cut while it thought: raise max_response_tokens", c.Source)
	}
	c.Tokens, mask = tokens[begin:end], learnt[begin:end]
	if err := m.reads(c, prompt.Tools); err != nil {
		return nil, err
	}
	if c.FinishReason == "length" { // a cut reply has no end that training could learn
		text := m.Renderer.Decode(c.Tokens)
		for n := len(c.Tokens) - 1; n > 0 && m.Renderer.Decode(c.Tokens[:n]) == text; n-- {
			c.Tokens, mask = c.Tokens[:n], mask[:n]
		}
	}
	if n := begin + len(c.Tokens); m.MaxModelLen > 0 && n > m.MaxModelLen {
		return nil, fmt.Errorf("the prompt and the reply of %s are %d tokens of this model's tokenizer, over max_model_len %d",
			c.Source, n, m.MaxModelLen)
	}
	return mask, nil
}

// reads returns an error unless the tokens of a completion read as its words.
func (m *Model) reads(c *Completion, tools json.RawMessage) error {
	got, calls, err := m.Renderer.ReadText(c.Tokens), []ToolCall(nil), error(nil)
	if len(tools) > 0 {
		got, calls, err = m.Renderer.Read(c.Tokens, tools)
	}
	differs := func(what, got, want string) error {
		return fmt.Errorf("the tokens of the reply of %s read as another %s: %.80q in place of %.80q", c.Source, what, got, want)
	}
	var want []ToolCall
	if len(c.Words.ToolCalls) > 0 && err == nil {
		err = json.Unmarshal(c.Words.ToolCalls, &want)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the calls in the reply of %s: %w", c.Source, err)
	case got.Content != c.Words.Content:
		return differs("text", got.Content, c.Words.Content)
	case got.Reasoning != c.Words.Reasoning:
		return differs("reasoning", got.Reasoning, c.Words.Reasoning)
	}
	written := func(all []ToolCall) string {
		var b bytes.Buffer
		for _, call := range all {
			fmt.Fprintf(&b, "%s ", call.Name)
			if json.Compact(&b, call.Arguments) != nil {
				b.Write(call.Arguments)
			}
		}
		return b.String()
	}
	if a, b := written(calls), written(want); a != b {
		return differs("call", a, b)
	}
	return nil
}

// learnWords makes an experience one of a reply that came as words: without log-probabilities, learnt where the template says, and
// rewarded for the words.
func (e *Experience) learnWords(c *called) {
	at := len(e.Tokens) - len(c.mask)
	copy(e.Mask[at:], c.mask)
	for _, learnt := range c.mask {
		if !learnt {
			e.EnvironmentLen++
		}
	}
	e.Logprobs, e.Source = nil, c.Source
	if c.Words.Reasoning == "" && len(c.Words.ToolCalls) == 0 { // a template may write more, such as empty thinking
		e.Response = c.Words.Content
	}
}
