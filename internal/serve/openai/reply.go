package openai

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/web"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
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
	return wire.Response{ID: q.id, Object: q.object(), Created: time.Now().Unix(), Model: s.NameOf(q.limits, q.Model), Choices: choices}
}

func (q *request) usage(out []Reply) *wire.Usage {
	prompt, sampled := 0, 0
	for _, p := range q.prompts {
		prompt += len(p)
	}
	for _, c := range out {
		sampled += len(c.Tokens)
	}
	sampled += int(q.spent.Load())
	return &wire.Usage{PromptTokens: prompt, CompletionTokens: sampled, TotalTokens: prompt + sampled}
}

// whole returns the reply to a request without streaming.
func (q *request) whole(s *Server, out []Reply) wire.Response {
	choices := make([]wire.Choice, len(out))
	for i, c := range out {
		choice := wire.Choice{Index: i, FinishReason: q.finish(c), Versions: &c.Versions}
		if q.logprobs {
			choice.Logprobs = q.logprobsOf(s, i, &c.Completion, &logged{})
		}
		choice.SampledFrom = SampledFrom(c)
		q.addIDs(s, &choice, c)
		if q.as == chat {
			m := q.view.Message(c)
			choice.Message = &wire.Message{Role: m.Role, Content: m.Content, ReasoningContent: m.Reasoning, ToolCalls: q.calls(c, false)}
		} else {
			choice.Text = new(q.echoed(i) + q.viewOf(i).Message(c).Content)
			if q.PromptLogprobs != nil {
				choice.PromptLogprobs = q.promptLogprobs(s, q.prompts[i/q.params.N], c.Prompt)
			}
		}
		choices[i] = choice
	}
	reply := q.response(s, choices)
	reply.Usage = q.usage(out)
	if q.as == chat && q.PromptLogprobs != nil {
		reply.PromptLogprobs = q.promptLogprobs(s, q.prompts[0], out[0].Prompt)
	}
	if q.ReturnTokenIDs {
		reply.PromptTokenIDs = q.call.Prompt
	}
	return reply
}

// SampledFrom is the field sampled_from of a reply: "constrained" if a penalty, a bias or a form changed the distribution
// that its tokens were drawn from. Its log-probabilities are those of the unchanged distribution.
func SampledFrom(c Reply) string {
	if c.Changed {
		return "constrained"
	}
	return ""
}

// addIDs adds the token ids of a reply and its recorded call to a choice, if the request asks for them.
func (q *request) addIDs(s *Server, choice *wire.Choice, c Reply) {
	if !q.ReturnTokenIDs {
		return
	}
	choice.TokenIDs = c.Tokens
	if r := c.Recorded; r != nil {
		choice.Recorded = &wire.Recorded{PromptLength: r.PromptLength, Text: s.Renderer.Decode(c.Tokens), Turn: r.Turn}
	}
}

// calls returns the calls of a reply. In a stream each has its place.
func (q *request) calls(r Reply, stream bool) (out []wire.ToolCall) {
	for i, c := range q.view.Calls(r) {
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
	if len(q.calls(r, false)) > 0 && reason == "stop" {
		reason = "tool_calls"
	}
	return &reason
}

// stream replies with server-sent events: thinking and text as soon as no later token can change them,
// then the calls of tools and the finish reasons. Calls come last, because one that cannot be read
// makes all calls of its reply text. The ids of a reply come with its finish reason,
// because its text comes in other parts than its tokens.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, q *request) {
	events := &events{w: w}
	sent := make([]progress, q.params.N*len(q.prompts))
	out, err := q.call.Follow(ctx, q.params, func(choice int, so *trinity.Completion) {
		q.sendMore(s, events, choice, &sent[choice], q.viewOf(choice).Settled(so.Tokens), &Reply{Completion: *so})
	})
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
			if calls := q.calls(c, true); len(calls) > 0 {
				q.sendMore(s, events, i, &sent[i], q.view.Message(c), &Reply{Completion: c.Completion})
				events.send(q.response(s, []wire.Choice{{Index: i, Delta: &wire.Message{Role: sent[i].roleOnce(), ToolCalls: calls}}}))
			}
			sent[i].ends = true
			q.sendMore(s, events, i, &sent[i], q.viewOf(i).Message(c), &c)
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

// progress is how much of a reply the client has.
type progress struct {
	trinity.Message
	logged
	ends bool // the next event is the last
}

// sendMore sends what the client does not have yet of a reply's thinking and text, and the
// log-probabilities of the tokens so far. Those of an echoed prompt are known at the end alone.
func (q *request) sendMore(s *Server, e *events, choice int, sent *progress, m trinity.Message, so *Reply) {
	thought, _ := strings.CutPrefix(m.Reasoning, sent.Reasoning)
	text, _ := strings.CutPrefix(m.Content, sent.Content)
	if thought == "" && text == "" && !sent.ends {
		return
	}
	c := wire.Choice{Index: choice}
	if q.logprobs && (q.Echo && sent.ends || !q.Echo && len(so.Tokens) > sent.tokens) {
		c.Logprobs = q.logprobsOf(s, choice, &so.Completion, &sent.logged)
	}
	if sent.ends {
		c.FinishReason = q.finish(*so)
		c.SampledFrom = SampledFrom(*so)
		q.addIDs(s, &c, *so)
	}
	if q.as == plain {
		if sent.roleOnce() != "" {
			text = q.echoed(choice) + text
		}
		c.Text = &text
	} else {
		c.Delta = &wire.Message{Role: sent.roleOnce(), ReasoningContent: thought, Content: text}
	}
	sent.Reasoning, sent.Content = m.Reasoning, m.Content
	more := q.response(s, []wire.Choice{c})
	if sent.ends && q.ReturnTokenIDs {
		more.PromptTokenIDs = q.call.Prompt
	}
	e.send(more)
}

// roleOnce returns the role for the first event of a reply, and "" for later ones: clients join what the
// events say.
func (sent *progress) roleOnce() string {
	if sent.Role != "" {
		return ""
	}
	sent.Role = "assistant"
	return sent.Role
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
