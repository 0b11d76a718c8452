package openai

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/serve/web"
	wire "github.com/trinity-go/trinity/wire/openai"
)

func newID(as form) string {
	if as == chat {
		return "chatcmpl-" + rand.Text()
	}
	return "cmpl-" + rand.Text()
}

// object returns the type of a reply in the words of the API.
func (q *request) object() string {
	switch {
	case q.as == plain:
		return "text_completion"
	case q.Stream:
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

// response returns a reply with the fields that all replies share.
func (q *request) response(s *Server, choices []wire.Choice) wire.Response {
	return wire.Response{ID: q.id, Object: q.object(), Created: time.Now().Unix(), Model: s.Name, Choices: choices}
}

func (q *request) usage(out []Reply) *wire.Usage {
	sampled := 0
	for _, c := range out {
		sampled += len(c.Tokens)
	}
	prompt := len(q.call.Prompt)
	return &wire.Usage{PromptTokens: prompt, CompletionTokens: sampled, TotalTokens: prompt + sampled}
}

// whole returns the reply to a request without streaming.
func (q *request) whole(s *Server, out []Reply) wire.Response {
	choices := make([]wire.Choice, len(out))
	for i, c := range out {
		choice := wire.Choice{Index: i, FinishReason: q.finish(c), Versions: &c.Versions}
		if q.logprobs {
			choice.Logprobs = q.logprobsOf(s, c.Completion)
		}
		if q.ReturnTokenIDs {
			choice.TokenIDs = c.Tokens
		}
		if q.as == chat {
			m := q.message(s, c)
			choice.Message = &wire.Message{Role: m.Role, Content: m.Content, ReasoningContent: m.Reasoning, ToolCalls: calls(c, false)}
		} else {
			text := q.text(s, c, 0)
			choice.Text = &text
		}
		choices[i] = choice
	}
	reply := q.response(s, choices)
	reply.Usage = q.usage(out)
	if q.ReturnTokenIDs {
		reply.PromptTokenIDs = q.call.Prompt
	}
	return reply
}

// message returns the message that the client gets. A client without tools gets the whole text,
// thinking included, as one that streams does.
func (q *request) message(s *Server, r Reply) trinity.Message {
	if len(q.Tools) == 0 {
		return trinity.Message{Role: "assistant", Content: q.text(s, r, 0)}
	}
	m := r.Message
	m.Content = q.untilStop(m.Content, 0)
	if len(r.Calls) > 0 {
		m.ToolCalls, _ = json.Marshal(r.Calls) // what a renderer reads has a form in JSON
	}
	return m
}

// calls returns the calls of a reply. In a stream each has its place.
func calls(r Reply, stream bool) []wire.ToolCall {
	var out []wire.ToolCall
	for i, c := range r.Calls {
		call := wire.ToolCall{ID: c.ID, Type: "function", Function: wire.FunctionCall{Name: c.Name, Arguments: string(c.Arguments)}}
		if stream {
			call.Index = &i
		}
		out = append(out, call)
	}
	return out
}

// finish returns why a reply ended: "stop", "length" or "tool_calls".
func (q *request) finish(r Reply) *string {
	reason := r.FinishReason
	if len(r.Calls) > 0 && reason == "stop" {
		reason = "tool_calls"
	}
	return &reason
}

// logprobsOf returns the log-probabilities of the sampled tokens, including the token that ended
// the reply.
func (q *request) logprobsOf(s *Server, c trinity.Completion) *wire.Logprobs {
	l := &wire.Logprobs{}
	for i, token := range c.Tokens {
		text := s.Renderer.Decode(c.Tokens[i : i+1])
		if q.ReturnTokensAsIDs {
			text = fmt.Sprintf("token_id:%d", token)
		}
		switch q.as {
		case plain:
			l.Tokens, l.TokenLogprobs = append(l.Tokens, text), append(l.TokenLogprobs, &c.Logprobs[i])
		case chat:
			l.Content = append(l.Content, wire.TokenLogprob{Token: text, Logprob: c.Logprobs[i], TopLogprobs: []wire.TokenLogprob{}})
		}
	}
	return l
}

// piece is a sampled token of a choice.
type piece struct {
	choice int
	token  int32
}

// stream replies with server-sent events: each text as soon as the sampler has it, then the finish
// reasons. A reply that may call tools comes as a whole, because its text may become a call.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, q *request) {
	pieces := make(chan piece, q.params.N*q.params.MaxTokens) // OnToken must not block
	if len(q.Tools) == 0 {
		q.params.OnToken = func(i int, token int32) { pieces <- piece{i, token} }
	}
	var out []Reply
	var err error
	go func() {
		defer close(pieces)
		out, err = q.call.Sample(ctx, q.params)
	}()
	events := &events{w: w}
	tokens, sent := make([][]int32, q.params.N), make([]string, q.params.N)
	for p := range pieces {
		tokens[p.choice] = append(tokens[p.choice], p.token)
		text := q.visible(s, tokens[p.choice], len(sent[p.choice]))
		q.sendText(s, events, p.choice, &sent[p.choice], q.settled(text), nil)
	}
	if err != nil {
		if !events.begun {
			Fail(w, err)
			return
		}
		events.send(ProblemOf(err).body())
		return
	}
	q.send(s, out, func() error {
		for i, c := range out {
			if len(q.Tools) > 0 {
				q.sendWhole(s, events, i, c)
				continue
			}
			q.sendText(s, events, i, &sent[i], q.text(s, c, len(sent[i])), &c.FinishReason)
		}
		if q.StreamOptions.IncludeUsage {
			last := q.response(s, []wire.Choice{})
			last.Usage = q.usage(out)
			events.send(last)
		}
		events.end()
		return events.failed
	})
}

// sendWhole sends a reply that may call tools.
func (q *request) sendWhole(s *Server, e *events, choice int, r Reply) {
	m := q.message(s, r)
	delta := &wire.Message{Role: m.Role, Content: m.Content, ReasoningContent: m.Reasoning, ToolCalls: calls(r, true)}
	e.send(q.response(s, []wire.Choice{{Index: choice, Delta: delta}}))
	e.send(q.response(s, []wire.Choice{{Index: choice, Delta: &wire.Message{}, FinishReason: q.finish(r)}}))
}

// settled returns the prefix of a text that later tokens cannot change: it ends before an
// incomplete character and before anything that may begin a stop string.
func (q *request) settled(text string) string {
	for len(text) > 0 {
		r, size := utf8.DecodeLastRuneInString(text)
		if r != utf8.RuneError {
			break
		}
		text = text[:len(text)-size]
	}
	longest := 0
	for _, stop := range q.params.Stop {
		for n := min(len(stop)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, stop[:n]) {
				longest = n
			}
		}
	}
	return text[:len(text)-longest]
}

// sendText sends the part of a choice's text that the client does not have yet. reason is nil until the
// choice ends.
func (q *request) sendText(s *Server, e *events, choice int, sent *string, text string, reason *string) {
	more, extends := strings.CutPrefix(text, *sent)
	if !extends || more == "" && reason == nil {
		return
	}
	c := wire.Choice{Index: choice, FinishReason: reason}
	if q.as == plain {
		c.Text = &more
	} else {
		c.Delta = &wire.Message{Content: more}
		if *sent == "" {
			c.Delta.Role = "assistant"
		}
	}
	*sent = text
	e.send(q.response(s, []wire.Choice{c}))
}

// events writes server-sent events.
type events struct {
	w      http.ResponseWriter
	begun  bool
	failed error // of the connection
}

func (e *events) send(body any) {
	data, err := web.Encode(body)
	if err != nil {
		panic(err) // texts and finite numbers always have a form in JSON
	}
	e.write(string(data))
}

func (e *events) end() { e.write("[DONE]") }

func (e *events) write(data string) {
	if !e.begun {
		e.begun = true
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.Header().Set("Cache-Control", "no-cache")
	}
	_, err := fmt.Fprintf(e.w, "data: %s\n\n", data)
	e.failed = cmp.Or(e.failed, err, http.NewResponseController(e.w).Flush())
}
