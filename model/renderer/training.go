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

// RenderTraining returns the tokens of a chat [T] up to the last message that training learns, and the
// mask [T] of the learned tokens.
//
// A template with {% generation %} blocks marks the assistant's tokens itself, as for transformers'
// assistant mask. With any other template RenderTraining renders the chat twice for each message that
// is learned: up to and including the message, and up to the opening of the reply. The mask gets the
// difference, without the part after the token that ends the turn, which no model writes.
//
// Some templates render an earlier turn differently from the last one (Qwen3 drops its thinking). If
// such a turn is to be learned with a later one, the error is [trinity.ErrRewritesHistory]. Others open
// the thinking in their prompts and leave it out of a chat (DeepSeek-R1). A reply is then learned as the
// policy writes it: its prompt, its thinking, and what the template writes.
func (r *Renderer) RenderTraining(
	messages []trinity.Message, tools json.RawMessage, learn []bool,
) (tokens []int32, mask []bool, err error) {
	var turns []int // that are learned
	for i, m := range messages {
		if learn[i] && m.Role == "assistant" {
			turns = append(turns, i)
		}
	}
	if len(turns) == 0 {
		return nil, nil, fmt.Errorf("renderer: no turn of the assistant to learn in a chat of %d messages", len(messages))
	}
	last := turns[len(turns)-1]
	c, err := r.newChat(r.apart(messages[:last+1]), tools)
	if err != nil {
		return nil, nil, err
	}
	whole, err := c.render(last+1, false)
	if err != nil {
		return nil, nil, err
	}
	if err := c.unread(); err != nil {
		return nil, nil, err
	}
	var spans []span
	marked := r.template.HasGenerations() && !whole.Untracked
	if marked {
		spans, err = c.generations(turns, whole.Generations)
	} else {
		spans, err = c.turns(turns, whole.Text)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case !marked && len(spans) < len(turns) && len(turns) > 1:
		return nil, nil, fmt.Errorf("renderer: %d of %d turns of the assistant: %w", len(turns)-len(spans), len(turns),
			trinity.ErrRewritesHistory)
	case len(spans) == 0:
		return c.reply(whole.Text)
	}
	tokens = r.tok.Encode(whole.Text, false)
	places, err := place(r.tok, whole.Text, tokens, spans)
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

// generations returns the spans of a template's generation blocks that belong to the turns. A block
// belongs to the first message with which the template writes it.
func (c *chat) generations(turns []int, blocks [][2]int) (spans []span, err error) {
	all := 0
	for _, m := range c.given {
		if m.Role == "assistant" {
			all++
		}
	}
	for _, turn := range turns {
		begin, end := 0, len(blocks)
		if len(turns) < all {
			if begin, err = c.blocks(turn); err != nil {
				return nil, err
			}
			if end, err = c.blocks(turn + 1); err != nil {
				return nil, err
			}
		}
		for _, g := range blocks[min(begin, len(blocks)):min(end, len(blocks))] {
			spans = append(spans, span{g[0], g[1]})
		}
		if len(turns) == all {
			break // all blocks
		}
	}
	if len(spans) == 0 {
		return nil, fmt.Errorf("renderer: the chat template writes no {%% generation %%} block for the assistant's turns")
	}
	return spans, nil
}

// blocks returns how many generation blocks the template writes for the first n messages.
func (c *chat) blocks(n int) (int, error) {
	if n == 0 {
		return 0, nil
	}
	out, err := c.render(n, false)
	return len(out.Generations), err
}

// turns returns the spans of turns of the assistant in the text of the whole chat. It renders the chat
// up to each of them. It leaves out a turn that is not the continuation of its prompt, that the template
// writes otherwise in the whole chat, or that lacks its thinking.
func (c *chat) turns(turns []int, whole string) (spans []span, err error) {
	for _, turn := range turns {
		before, err := c.prompt(turn)
		if err != nil {
			return nil, err
		}
		with := whole
		if turn+1 < len(c.messages) {
			out, err := c.render(turn+1, false)
			if err != nil {
				return nil, err
			}
			with = out.Text
		}
		said, ok := strings.CutPrefix(with, before)
		if ok && said != "" && strings.HasPrefix(whole, with) && c.r.thinking.lost(c.given[turn], said) == "" {
			spans = append(spans, span{len(before), len(with)})
		}
	}
	return spans, nil
}

// prompt returns the text that the template writes before the reply that is message n. Before a chat
// that the assistant opens it is what opens any reply.
func (c *chat) prompt(n int) (string, error) {
	if n > 0 {
		out, err := c.render(n, true)
		return out.Text, err
	}
	with, err := c.render(1, false)
	if err != nil {
		return "", err
	}
	question := []trinity.Message{{Role: "user", Content: probeText}}
	asked, err := c.r.text(question, nil, false)
	if err != nil {
		return "", err
	}
	opened, err := c.r.text(question, nil, true)
	if err != nil {
		return "", err
	}
	opening, ok := strings.CutPrefix(opened, asked)
	base, _, _ := c.r.thinking.cutOpen(opening) // the chat may leave the thinking out
	if at := strings.Index(with.Text, base); ok && at >= 0 && base != "" {
		return with.Text[:at] + opening, nil
	}
	return with.Text, nil // which no reply continues
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
