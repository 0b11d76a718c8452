package renderer

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// standIn and standInThought are the reply that Bridge renders in place of the policy's. Templates
// split and trim contents, so the policy's own text could hide where the template's begins.
const (
	standIn        = "trinity-reply-c1f0b7"
	standInThought = "trinity-thought-c1f0b7"
)

// Bridge returns the tokens [n] between the reply that history ends with and the next one.
//
// It renders the whole chat with a stand-in for the reply. The bridge is what follows the token that
// ends the stand-in's turn. If the chat does not begin with the prompt that the policy continued, or
// leaves out what it thought, the template rewrites earlier turns. With [Options].KeepThinking the
// bridge is the same then; else the error is [trinity.ErrRewritesHistory].
func (r *Renderer) Bridge(history, more []trinity.Message, tools json.RawMessage, ended bool) ([]int32, error) {
	s, err := r.see(slices.Concat(history, more), tools)
	if err != nil {
		return nil, err
	}
	messages, n := slices.Clone(s.messages), len(history)
	last := &messages[n-1]
	*last = withContent(*last, standIn)
	if last.Reasoning != "" {
		last.Reasoning = standInThought
	}
	c, err := r.newChat(messages, s.tools)
	if err != nil {
		return nil, err
	}
	out, err := c.render(len(messages), true)
	if err != nil {
		return nil, err
	}
	prompt, err := c.render(n-1, true)
	if err != nil {
		return nil, err
	}
	whole := out.Text
	at := strings.LastIndex(whole, standIn)
	if at < 0 { // the template leaves out the content of a reply with calls
		before, err := c.render(n, false)
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(whole, before.Text) || !r.keepThinking && !strings.HasPrefix(before.Text, prompt.Text) {
			return nil, trinity.ErrRewritesHistory
		}
		return s.encode(whole[r.turnEnd(whole, r.lastTurnEnd(before.Text), ended):], digestsOf(more))
	}
	if !r.keepThinking && !continues(whole[:at], prompt.Text, last.Reasoning) {
		return nil, trinity.ErrRewritesHistory
	}
	return s.encode(whole[r.turnEnd(whole, at+len(standIn), ended):], digestsOf(more))
}

// continues reports whether a chat, up to the content of a reply, is the reply's prompt and what the
// policy thought.
func continues(chat, prompt, thought string) bool {
	between, ok := strings.CutPrefix(chat, prompt)
	if !ok {
		return false
	}
	if thought == "" {
		return strings.TrimSpace(between) == ""
	}
	return strings.Contains(between, thought)
}

// turnEnd returns the byte after the first token from begin that ends a turn, or where this token
// begins if the policy has not written it. A template without such a token ends the turn at begin.
func (r *Renderer) turnEnd(text string, begin int, ended bool) int {
	at, size := -1, 0
	for _, id := range r.stop {
		token := r.tok.Token(id)
		if i := strings.Index(text[begin:], token); i >= 0 && token != "" && (at < 0 || i < at) {
			at, size = i, len(token)
		}
	}
	switch {
	case at < 0:
		return begin
	case ended:
		return begin + at + size
	default:
		return begin + at
	}
}

// lastTurnEnd returns where the last token that ends a turn begins in text, else the text's length.
func (r *Renderer) lastTurnEnd(text string) int {
	last := -1
	for _, id := range r.stop {
		if token := r.tok.Token(id); token != "" {
			last = max(last, strings.LastIndex(text, token))
		}
	}
	if last < 0 {
		return len(text)
	}
	return last
}

// RewritesHistory reports whether the chat template writes an earlier turn otherwise once the user
// has answered: with the reply's thinking left out, for example.
func (r *Renderer) RewritesHistory() bool {
	history := []trinity.Message{{Role: "user", Content: "question"}, {Role: "assistant", Content: "answer"}}
	if r.thinking.parsed {
		history[1].Reasoning = "thought"
	}
	plain := *r
	plain.keepThinking = false
	_, err := plain.Bridge(history, []trinity.Message{{Role: "user", Content: "question"}}, nil, true)
	return err == trinity.ErrRewritesHistory
}
