package renderer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// span is a byte range [begin, end) of a rendered chat that the assistant wrote.
type span struct{ begin, end int }

// RenderTraining returns a whole chat [T] and the mask [T] of what the assistant wrote.
//
// A template with {% generation %} blocks says itself what that is, as for transformers' assistant mask. With any other
// template it is, for every assistant message, what the chat up to and with the message has more than the chat before it
// with the opening of a reply; the part behind the token that ends the turn is left out, as no model writes it. Some
// templates write an earlier turn differently than they did when it was the last one (Qwen3 drops its thinking): such a
// turn is not what the assistant wrote and stays out of the mask. If that leaves nothing it is an error.
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

// turns finds the assistant's messages in the text of the whole chat by rendering the chat up to each of them.
func (c *chat) turns(messages []trinity.Message, whole string) ([]span, error) {
	var spans []span
	asked := false
	for i, m := range messages {
		if m.Role != "assistant" {
			continue
		}
		asked = true
		if i == 0 {
			continue // a chat that the assistant opens: nothing asked for this text
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
		return nil, fmt.Errorf("renderer: the chat template writes no assistant turn as a continuation of its own prompt, so what the assistant wrote is not known: use a template with {%% generation %%} blocks")
	}
	return spans, nil
}

// endOfTurn returns the index behind the last stop token of a span of tokens, or its end if it has none.
func (r *Renderer) endOfTurn(tokens []int32, p span) int {
	for i := p.end - 1; i >= p.begin; i-- {
		if slices.Contains(r.stop, tokens[i]) {
			return i + 1
		}
	}
	return p.end
}
