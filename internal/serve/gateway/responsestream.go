package gateway

import (
	"cmp"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// responseStream sends the events of a response.
type responseStream struct {
	*responses
	stream
	growth
	logged int // tokens whose log-probabilities have been sent
}

// event sends an event, which has a number.
func (s *responseStream) event(kind string, fields map[string]any) {
	fields["sequence_number"] = s.number
	s.send("response."+kind, fields)
}

// begin sends the response without any output, unless it has been sent.
func (s *responseStream) begin() {
	if s.number == 0 {
		s.event("created", map[string]any{"response": s.empty()})
		s.event("in_progress", map[string]any{"response": s.empty()})
	}
}

// grow sends what is new of the thinking and the text.
func (s *responseStream) grow(m trinity.Message, so *trinity.Completion) {
	s.begin()
	s.advanceTo(s.items(m, false, "completed", nil), so, false)
}

// end sends the rest of the response.
func (s *responseStream) end(response *wire.ResponsesReply, so *trinity.Completion) error {
	s.begin()
	s.advanceTo(response.Output, so, true)
	s.event(response.Status, map[string]any{"response": response})
	return s.failed
}

// fail ends the stream with an error.
func (s *responseStream) fail(err error) {
	p := openai.ProblemOf(err)
	failed := s.empty()
	failed.Status, failed.Error = "failed", &wire.Error{Code: new(cmp.Or(p.Code, "server_error")), Message: p.About(), Type: "server_error"}
	s.event("failed", map[string]any{"response": failed})
}

// advanceTo sends what the stream lacks of items. so is the reply so far.
func (s *responseStream) advanceTo(items []wire.Item, so *trinity.Completion, ended bool) {
	var texts []string
	for _, item := range items {
		text := ""
		if item.Arguments != nil {
			text = *item.Arguments
		}
		for _, part := range item.Content {
			text += part.Text
		}
		texts = append(texts, text)
	}
	of := func(i int, kind string, fields map[string]any) {
		fields["output_index"], fields["item_id"] = i, items[i].ID
		s.event(kind, fields)
	}
	partOf := func(i int, kind string, from int, fields map[string]any) {
		fields["content_index"] = 0
		if items[i].Type == "message" {
			fields["logprobs"] = s.logprobsOf(so, from)
		}
		of(i, items[i].Content[0].Type+kind, fields)
	}
	s.advance(texts, ended, sender{
		begin: func(i int) {
			empty := items[i]
			empty.Status = "in_progress"
			if empty.Arguments != nil {
				empty.Arguments = new("")
			}
			if empty.Content != nil {
				empty.Content = wire.Parts{}
			}
			of(i, "output_item.added", map[string]any{"item": empty})
			for _, part := range items[i].Content {
				part.Text = ""
				if part.Logprobs != nil {
					part.Logprobs = []wire.TokenLogprob{}
				}
				of(i, "content_part.added", map[string]any{"content_index": 0, "part": part})
			}
		},
		more: func(i int, text string) {
			if items[i].Type == "function_call" {
				of(i, "function_call_arguments.delta", map[string]any{"delta": text})
				return
			}
			partOf(i, ".delta", s.logged, map[string]any{"delta": text})
			if items[i].Type == "message" {
				s.logged = len(so.Tokens)
			}
		},
		end: func(i int) {
			if items[i].Type == "function_call" {
				of(i, "function_call_arguments.done", map[string]any{"arguments": texts[i], "name": items[i].Name})
			} else {
				partOf(i, ".done", 0, map[string]any{"text": texts[i]})
				of(i, "content_part.done", map[string]any{"content_index": 0, "part": items[i].Content[0]})
			}
			of(i, "output_item.done", map[string]any{"item": items[i]})
		},
	})
}
