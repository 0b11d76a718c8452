package renderer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// span is a byte range [begin, end) of a rendered chat with text of the assistant.
type span struct{ begin, end int }

// RenderTraining returns the tokens of a whole chat [T] and the mask [T] of the assistant's tokens.
//
// A template with {% generation %} blocks marks these tokens itself, as for transformers' assistant
// mask. With any other template RenderTraining renders the chat twice for each assistant message:
// up to and including the message, and up to the opening of the reply. The mask gets the
// difference, without the part after the token that ends the turn, which no model writes. Some
// templates render an earlier turn differently from the last one (Qwen3 drops its thinking). Such a
// turn differs from the assistant's tokens and stays out of the mask. An empty mask is an error.
func (r *Renderer) RenderTraining(messages []trinity.Message, tools json.RawMessage) (tokens []int32, mask []bool, err error) {
	c, err := r.newChat(messages, tools)
	if err != nil {
		return nil, nil, err
	}
	whole, err := c.render(len(messages), false)
	if err != nil {
		return nil, nil, err
	}
	tokens = r.tok.Encode(whole.Text, false)
	var spans []span
	marked := r.template.HasGenerations() && !whole.Untracked
	if marked {
		for _, g := range whole.Generations {
			spans = append(spans, span{g[0], g[1]})
		}
	} else if spans, err = c.turns(messages, whole.Text); err != nil {
		return nil, nil, err
	}
	if len(spans) == 0 {
		return nil, nil, fmt.Errorf("renderer: no turn of the assistant in a chat of %d messages", len(messages))
	}
	places, err := r.place(whole.Text, tokens, spans)
	if err != nil {
		return nil, nil, err
	}
	mask = make([]bool, len(tokens))
	for _, p := range places {
		if !marked {
			p.end = r.endOfTurn(tokens, p)
		}
		for i := p.begin; i < p.end; i++ {
			mask[i] = true
		}
	}
	return tokens, mask, nil
}

// turns returns the spans of the assistant's messages in the text of the whole chat. It renders the
// chat up to each of them.
func (c *chat) turns(messages []trinity.Message, whole string) ([]span, error) {
	var spans []span
	asked := false
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		asked = true
		if i == 0 {
			continue // the assistant opens the chat: no prompt precedes this text
		}
		before, err := c.render(i, true)
		if err != nil {
			return nil, err
		}
		with, err := c.render(i+1, false)
		if err != nil {
			return nil, err
		}
		if len(before.Text) < len(with.Text) && strings.HasPrefix(with.Text, before.Text) && strings.HasPrefix(whole, with.Text) {
			spans = append(spans, span{len(before.Text), len(with.Text)})
		}
	}
	if asked && len(spans) == 0 {
		return nil, fmt.Errorf("renderer: cannot find the assistant's text: the chat template renders no assistant turn as a " +
			"continuation of its prompt; " +
			"use a template with {%% generation %%} blocks")
	}
	return spans, nil
}

// endOfTurn returns the index after the last stop token of a span of tokens, or the end of the span
// if it has none.
func (r *Renderer) endOfTurn(tokens []int32, p span) int {
	for i := p.end - 1; i >= p.begin; i-- {
		if slices.Contains(r.stop, tokens[i]) {
			return i + 1
		}
	}
	return p.end
}
