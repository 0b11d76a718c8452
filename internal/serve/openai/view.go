package openai

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
)

// View is how a client sees the replies to its request: thinking, text and calls, until the first stop
// string.
type View struct {
	Renderer trinity.Renderer
	Tools    json.RawMessage // of the request. Without any, what looks like a call is text
	Stop     []string
	One      bool    // of several calls the client gets the first
	Plain    bool    // the text of all tokens, without thinking and calls
	Before   []int32 // the last tokens of a plain prompt, on which the space before the text depends
}

// Message returns the message that the client gets, with its calls.
func (v View) Message(r Reply) trinity.Message {
	m := r.Message
	switch {
	case v.Plain:
		m = trinity.Message{Content: v.decode(r.Tokens)}
	case len(v.Tools) == 0 && len(r.Tokens) > 0:
		m = v.Renderer.ReadText(r.Tokens)
	}
	m = v.stopped(m)
	if calls := v.Calls(r); len(calls) > 0 {
		m.ToolCalls, _ = json.Marshal(calls) // what a renderer reads has a form in JSON
	}
	return m
}

// Stopped returns the stop string that ended a reply, "" if none did.
func (v View) Stopped(r Reply) (stop string) {
	whole := v
	whole.Stop = nil
	said := whole.Message(r)
	if _, stop = v.cut(said.Reasoning); stop == "" {
		_, stop = v.cut(said.Content)
	}
	return stop
}

// Calls returns the calls that the client gets.
func (v View) Calls(r Reply) []trinity.ToolCall {
	switch {
	case len(v.Tools) == 0:
		return nil
	case v.One && len(r.Calls) > 1:
		return r.Calls[:1]
	}
	return r.Calls
}

// Settled returns what the client sees of a reply with these first tokens, whatever tokens follow. It
// ends before anything that may begin a stop string.
func (v View) Settled(tokens []int32) trinity.Message {
	var m trinity.Message
	if v.Plain {
		m.Content = strings.TrimRight(v.decode(tokens), "\uFFFD") // perhaps the beginning of a character
	} else {
		m = v.Renderer.Settled(tokens, v.Tools)
	}
	m = v.stopped(m)
	last := &m.Content
	if m.Content == "" {
		last = &m.Reasoning
	}
	longest := 0
	for _, stop := range v.Stop {
		for n := min(len(stop)-1, len(*last)); n > longest; n-- {
			if strings.HasSuffix(*last, stop[:n]) {
				longest = n
			}
		}
	}
	*last = (*last)[:len(*last)-longest]
	return m
}

// decode returns the text of tokens behind a plain prompt.
func (v View) decode(tokens []int32) string {
	if len(v.Before) > 0 {
		whole := v.Renderer.Decode(slices.Concat(v.Before, tokens))
		if text, ok := strings.CutPrefix(whole, v.Renderer.Decode(v.Before)); ok {
			return text
		}
	}
	return v.Renderer.Decode(tokens)
}

// stopped returns a message up to the first stop string. One in the thinking ends the reply.
func (v View) stopped(m trinity.Message) trinity.Message {
	if thought, stop := v.cut(m.Reasoning); stop != "" {
		m.Reasoning, m.Content = thought, ""
	}
	m.Content, _ = v.cut(m.Content)
	return m
}

// cut returns the text before the first stop string, and that string, "" if there is none. Of several
// at the same place, the longest counts, so the order of the stop strings does not matter.
func (v View) cut(text string) (before, stop string) {
	at := len(text)
	for _, s := range v.Stop {
		if i := strings.Index(text, s); i >= 0 && (i < at || i == at && len(s) > len(stop)) {
			at, stop = i, s
		}
	}
	return text[:at], stop
}

// piece is a sampled token of a choice.
type piece struct {
	choice int
	trinity.Sampled
}

// pieces are tokens on their way to the client. Adding never blocks, and thousands of streams do not
// each hold the room of a longest reply.
type pieces struct {
	more chan struct{} // holds one if there are any; closed after the last
	mu   sync.Mutex
	of   []piece
}

func (p *pieces) add(t piece) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of = append(p.of, t)
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *pieces) take() []piece {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of
	p.of = nil
	return of
}

// steps bounds how often a stream looks at its whole reply while it doubles. A look takes time by the
// tokens so far, so one at each token would take a core for minutes.
const steps = 256

// Follow samples the replies to a request of p.N replies. Each time that a reply has grown by a token,
// and by its 256th part if it is long, grown gets all of it so far, in the caller's goroutine.
func (c *Call) Follow(
	ctx context.Context, p trinity.SamplingParams, grown func(choice int, so *trinity.Completion),
) (out []Reply, err error) {
	pieces := &pieces{more: make(chan struct{}, 1)}
	p.OnToken = func(i int, s trinity.Sampled) { pieces.add(piece{i, s}) }
	go func() {
		defer close(pieces.more)
		out, err = c.Sample(ctx, p)
	}()
	choices := p.N * (1 + c.others)
	replies, seen := make([]trinity.Completion, choices), make([]int, choices)
	for range pieces.more {
		for _, next := range pieces.take() {
			so := &replies[next.choice]
			so.Tokens, so.Logprobs = append(so.Tokens, next.Token), append(so.Logprobs, next.Logprob)
			if next.Top != nil {
				so.TopLogprobs = append(so.TopLogprobs, next.Top)
			}
			if n := len(so.Tokens); n-seen[next.choice] > n/steps {
				grown(next.choice, so)
				seen[next.choice] = n
			}
		}
	}
	return out, err
}
