package gateway

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/serve/openai"
	"github.com/trinity-go/trinity/serve/web"
	"github.com/trinity-go/trinity/wire/anthropic"
)

// messages is a request of Anthropic's Messages API that was read.
type messages struct {
	anthropic.Request
	call   *openai.Call
	params trinity.SamplingParams
}

// answerMessages answers a request over Anthropic's Messages API.
func answerMessages(w http.ResponseWriter, r *http.Request) {
	q, err := readMessages(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	reply, err := sample(r, q.call, q.params)
	if err != nil {
		refuse(w, err)
		return
	}
	m, reason, stop := q.message(reply)
	reply.Sent(m)
	if q.send(w, q.response(reply, m, reason, stop)) != nil {
		reply.Lost()
	}
}

// countTokens answers with the number of tokens that the policy would read.
func countTokens(w http.ResponseWriter, r *http.Request) {
	q, err := readMessages(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	if q.call.Prompt == nil {
		refuse(w, openai.Bad("model", "%q is not the policy: only the policy's tokens are counted", q.Model))
		return
	}
	web.WriteJSON(w, http.StatusOK, map[string]int{"input_tokens": len(q.call.Prompt)})
}

// refuse replies with an error in the form of Anthropic's API.
func refuse(w http.ResponseWriter, err error) {
	p := openai.ProblemOf(err)
	kind := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusGatewayTimeout: "timeout_error", http.StatusInternalServerError: "api_error",
	}[p.Status]
	if p.Final {
		w.Header().Set("x-should-retry", "false")
	}
	problem := anthropic.Error{Type: cmp.Or(kind, "invalid_request_error"), Message: about(p)}
	web.WriteJSON(w, p.Status, anthropic.Refusal{Type: "error", Error: problem})
}

// messagesFields are the fields of a request that the gateway reads or need not read.
var messagesFields = fieldsOf(reflect.TypeFor[anthropic.Request]())

// readMessages reads a request, and refuses what the gateway cannot do.
func readMessages(w http.ResponseWriter, r *http.Request) (*messages, error) {
	q := &messages{}
	data, err := readFields(w, r, &q.Request, messagesFields, nil)
	if err != nil {
		return nil, err
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	chat, err := chatOf(&q.Request)
	if err != nil {
		return nil, err
	}
	model, err := modelOf(r, data, q.Model)
	if err != nil {
		return nil, err
	}
	if q.call, err = model.Chat(chat, toolsOf(&q.Request)); err != nil {
		return nil, err
	}
	q.params, err = wishes{q.Temperature, q.TopP, q.TopK, q.MaxTokens, q.StopSequences}.params(model.Defaults(), q.call.Prompt)
	return q, err
}

// check refuses values that ask for something that the gateway cannot do.
func (q *messages) check() error {
	switch {
	case len(q.Messages) == 0:
		return openai.Bad("messages", "there are no messages")
	case q.MaxTokens < 0:
		return openai.Bad("max_tokens", "it is %d; want at least 1", q.MaxTokens)
	case q.ToolChoice.Type != "" && q.ToolChoice.Type != "auto" && q.ToolChoice.Type != "none":
		return openai.Bad("tool_choice", "%q is not supported: want auto or none", q.ToolChoice.Type)
	case q.Thinking.Type != "" && q.Thinking.Type != "disabled":
		return openai.Bad("thinking", "%q is not supported: the chat template decides whether the model thinks", q.Thinking.Type)
	case len(q.StopSequences) > maxStops:
		return openai.Bad("stop_sequences", "there are %d; want at most %d", len(q.StopSequences), maxStops)
	}
	for _, stop := range q.StopSequences {
		if stop == "" || len(stop) > maxStop {
			return openai.Bad("stop_sequences", "a text of %d bytes; want 1 to %d", len(stop), maxStop)
		}
	}
	for _, t := range q.Tools {
		if t.Type != "" && t.Type != "custom" {
			return openai.Bad("tools", "a tool of type %q: only Anthropic's servers have it", t.Type)
		}
	}
	return nil
}

// Limits of stop sequences, for which the sampler looks at every token.
const (
	maxStops = 32
	maxStop  = 256 // bytes
)

// chatOf returns the chat of a request. A result of a tool is a message of its own.
func chatOf(q *anthropic.Request) (chat []trinity.Message, err error) {
	for _, m := range append([]anthropic.Message{{Role: "system", Content: q.System}}, q.Messages...) {
		if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
			return nil, openai.Bad("messages", "a message has the role %q: want user or assistant", m.Role)
		}
		own := trinity.Message{Role: m.Role}
		var calls []trinity.ToolCall
		results := len(chat)
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				own.Content += b.Text
			case "tool_use":
				calls = append(calls, trinity.ToolCall{ID: b.ID, Name: b.Name, Arguments: orEmpty(b.Input)})
			case "tool_result":
				result := trinity.Message{Role: "tool", ToolCallID: b.ToolUseID}
				for _, part := range b.Content {
					if part.Type != "text" {
						return nil, openai.Bad("messages", "a tool_result has a block of type %q: want text", part.Type)
					}
					result.Content += part.Text
				}
				chat = append(chat, result)
			case "thinking", "redacted_thinking": // the policy's own, which its template writes
			default:
				return nil, openai.Bad("messages", "a block of type %q: want text, tool_use or tool_result", b.Type)
			}
		}
		own.ToolCalls = callsOf(calls)
		if own.Content != "" || len(calls) > 0 || m.Role != "system" && len(chat) == results {
			chat = append(chat, own)
		}
	}
	return chat, nil
}

func orEmpty(object json.RawMessage) json.RawMessage {
	if len(object) == 0 {
		return json.RawMessage("{}")
	}
	return object
}

// toolsOf returns the tools of a request in OpenAI's form, which chat templates read; nil if there
// are none or no reply may call one.
func toolsOf(q *anthropic.Request) json.RawMessage {
	if q.ToolChoice.Type == "none" {
		return nil
	}
	var tools []tool
	for _, t := range q.Tools {
		tools = append(tools, tool{"function", toolDetail{t.Name, t.Description, t.InputSchema}})
	}
	return written(tools)
}

// message returns what the client gets of a reply: its text and calls, why it ended, and the stop
// sequence that ended it.
func (q *messages) message(r openai.Reply) (m trinity.Message, reason string, stop *string) {
	m = trinity.Message{Role: "assistant", Content: r.Message.Content}
	reason = "end_turn"
	if r.FinishReason == "length" {
		reason = "max_tokens"
	}
	for _, s := range q.StopSequences {
		if before, _, found := strings.Cut(m.Content, s); found {
			m.Content, reason, stop = before, "stop_sequence", &s
		}
	}
	if len(r.Calls) > 0 {
		m.ToolCalls = callsOf(r.Calls)
		reason = "tool_use"
	}
	return m, reason, stop
}

func (q *messages) response(r openai.Reply, m trinity.Message, reason string, stop *string) *anthropic.Response {
	out := &anthropic.Response{
		ID: "msg_" + rand.Text(), Type: "message", Role: m.Role, Model: q.Model, Content: []anthropic.Block{}, StopReason: &reason,
		StopSequence: stop, Usage: anthropic.Usage{InputTokens: len(q.call.Prompt), OutputTokens: len(r.Tokens)},
	}
	if m.Content != "" {
		out.Content = append(out.Content, anthropic.Block{Type: "text", Text: m.Content})
	}
	for _, c := range r.Calls {
		out.Content = append(out.Content, anthropic.Block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.Arguments})
	}
	return out
}

// send sends a reply, or the events of a stream.
func (q *messages) send(w http.ResponseWriter, reply *anthropic.Response) error {
	if !q.Stream {
		return web.WriteJSON(w, http.StatusOK, reply)
	}
	events := newStream(w)
	begun := *reply
	begun.Content, begun.StopReason, begun.StopSequence, begun.Usage.OutputTokens = []anthropic.Block{}, nil, nil, 0
	events.send("message_start", map[string]any{"message": begun})
	for i, b := range reply.Content {
		empty, delta := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": b.Text}
		if b.Type == "tool_use" {
			empty = map[string]any{"type": b.Type, "id": b.ID, "name": b.Name, "input": struct{}{}}
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(b.Input)}
		}
		events.send("content_block_start", map[string]any{"index": i, "content_block": empty})
		events.send("content_block_delta", map[string]any{"index": i, "delta": delta})
		events.send("content_block_stop", map[string]any{"index": i})
	}
	events.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reply.StopReason, "stop_sequence": reply.StopSequence},
		"usage": map[string]int{"output_tokens": reply.Usage.OutputTokens},
	})
	events.send("message_stop", map[string]any{})
	return events.end()
}
