package openai

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
)

func newID(as form) string {
	if as == chat {
		return "chatcmpl-" + rand.Text()
	}
	return "cmpl-" + rand.Text()
}

// object is the type name of a reply in the API.
func (q *request) object() string {
	switch {
	case q.as == plain:
		return "text_completion"
	case q.Stream:
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

// envelope holds the fields that all replies share.
func (q *request) envelope(s *Server, choices []any) map[string]any {
	return map[string]any{"id": q.id, "object": q.object(), "created": time.Now().Unix(), "model": s.Name, "choices": choices}
}

func (q *request) usage(out []trinity.Completion) map[string]int {
	sampled := 0
	for _, c := range out {
		sampled += len(c.Tokens)
	}
	return map[string]int{"prompt_tokens": len(q.prompt), "completion_tokens": sampled, "total_tokens": len(q.prompt) + sampled}
}

// whole returns the reply to a request without streaming.
func (q *request) whole(s *Server, out []trinity.Completion) any {
	choices := make([]any, len(out))
	for i, c := range out {
		text := q.visible(s, c.Tokens)
		choice := map[string]any{"index": i, "finish_reason": c.FinishReason, "logprobs": nil, "versions": c.Versions}
		if q.logprobs {
			choice["logprobs"] = q.logprobsOf(s, c)
		}
		if q.ReturnTokenIDs {
			choice["token_ids"] = c.Tokens
		}
		if q.as == chat {
			choice["message"] = map[string]any{"role": "assistant", "content": text}
		} else {
			choice["text"] = text
		}
		choices[i] = choice
	}
	reply := q.envelope(s, choices)
	reply["usage"] = q.usage(out)
	if q.ReturnTokenIDs {
		reply["prompt_token_ids"] = q.prompt
	}
	return reply
}

// logprobsOf returns the log-probabilities of the sampled tokens in nats, with the token that ended the reply.
func (q *request) logprobsOf(s *Server, c trinity.Completion) any {
	texts := make([]string, len(c.Tokens))
	for i := range c.Tokens {
		texts[i] = s.Renderer.Decode(c.Tokens[i : i+1])
	}
	if q.as == plain {
		return map[string]any{"tokens": texts, "token_logprobs": c.Logprobs, "top_logprobs": nil}
	}
	content := make([]any, len(texts))
	for i, text := range texts {
		content[i] = map[string]any{"token": text, "logprob": c.Logprobs[i], "top_logprobs": []any{}}
	}
	return map[string]any{"content": content}
}

// piece is a sampled token of a choice.
type piece struct {
	choice int
	token  int32
}

// stream replies with server-sent events: text as soon as it is sampled, then the finish reasons.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, q *request) {
	pieces := make(chan piece, q.params.N*q.params.MaxTokens) // OnToken must not block
	q.params.OnToken = func(i int, token int32) { pieces <- piece{i, token} }
	var out []trinity.Completion
	var err error
	go func() {
		defer close(pieces)
		out, err = s.Sampler.Sample(ctx, trinity.Prompt{Tokens: q.prompt}, q.params)
	}()
	events := &events{w: w}
	tokens, sent := make([][]int32, q.params.N), make([]string, q.params.N)
	for p := range pieces {
		tokens[p.choice] = append(tokens[p.choice], p.token)
		text := q.visible(s, tokens[p.choice])
		q.send(s, events, p.choice, &sent[p.choice], q.settled(text), nil)
	}
	if err != nil {
		if !events.begun {
			fail(w, err)
			return
		}
		events.send(problemOf(err).body())
		return
	}
	for i, c := range out {
		text := q.visible(s, c.Tokens)
		q.send(s, events, i, &sent[i], text, c.FinishReason)
	}
	if q.StreamOptions.IncludeUsage {
		last := q.envelope(s, []any{})
		last["usage"] = q.usage(out)
		events.send(last)
	}
	events.end()
}

// settled returns the prefix of a text that later tokens cannot change: it ends before an incomplete
// character and before anything that may begin a stop string.
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

// send sends the part of a choice's text that was not sent yet.
func (q *request) send(s *Server, e *events, choice int, sent *string, text string, reason any) {
	more, extends := strings.CutPrefix(text, *sent)
	if !extends || more == "" && reason == nil {
		return
	}
	c := map[string]any{"index": choice, "finish_reason": reason, "logprobs": nil}
	if q.as == plain {
		c["text"] = more
	} else {
		delta := map[string]any{"content": more}
		if *sent == "" {
			delta["role"] = "assistant"
		}
		c["delta"] = delta
	}
	*sent = text
	e.send(q.envelope(s, []any{c}))
}

// events writes server-sent events.
type events struct {
	w     http.ResponseWriter
	begun bool
}

func (e *events) send(body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // numbers and texts always have a form
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
	fmt.Fprintf(e.w, "data: %s\n\n", data)
	_ = http.NewResponseController(e.w).Flush() // a client that has gone reads nothing more
}
