package gateway

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wire/anthropic"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/trinitytest"
)

// body returns a function that writes a request: a template with the words of the user as %, and more
// fields.
func body(template string) func(string, ...string) string {
	return func(words string, more ...string) string {
		quoted, _ := json.Marshal(words)
		fields := append([]string{strings.ReplaceAll(template, "%", string(quoted))}, more...)
		return "{" + strings.Join(fields, ",") + "}"
	}
}

// read returns a function that decodes an answer strictly and reads it; "" if it is something else.
func read[T any](of func(*T) string) func(string) string {
	return func(answer string) string {
		var v T
		d := json.NewDecoder(strings.NewReader(answer))
		d.DisallowUnknownFields()
		if d.Decode(&v) != nil {
			return ""
		}
		return of(&v)
	}
}

// joined returns a function that joins what the events of a stream say.
func joined[T any](of func(*T) string) func(string) string {
	return func(events string) (all string) {
		for line := range strings.Lines(events) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var v T
				_ = json.Unmarshal([]byte(data), &v) // the end of a stream is no JSON
				all += of(&v)
			}
		}
		return all
	}
}

func TestDialectsConform(t *testing.T) {
	openaiProblem := read(func(r *wire.Refusal) string { return r.Error.Message })
	const function = `{"type":"function","function":{"name":"f"}}`
	for name, o := range map[string]trinitytest.DialectOptions{
		"chat": {
			Path: "/chat/completions", Body: body(`"messages":[{"role":"user","content":%}]`), Problem: openaiProblem,
			Text: read(func(r *wire.Response) string { return r.Choices[0].Message.Content }),
			Streamed: joined(func(r *wire.Response) string {
				if len(r.Choices) == 0 || r.Choices[0].Delta == nil {
					return ""
				}
				return r.Choices[0].Delta.Content
			}),
			Stop: `"stop":"c"`, Tools: `"tools":[` + function + `]`, Call: `"function":{"arguments":"{\"a\":1}","name":"f"}`,
			Refused: map[string]string{
				"response_format": `"response_format":{"type":"json_object"}`, "tool_choice": `"tool_choice":"required"`,
				"logit_bias": `"logit_bias":{"x":1}`, "audio": `"audio":{"voice":"x"}`,
			},
		},
		"completions": {
			Path: "/completions", Body: body(`"prompt":%`), Problem: openaiProblem,
			Text: read(func(r *wire.Response) string { return *r.Choices[0].Text }),
			Streamed: joined(func(r *wire.Response) string {
				if len(r.Choices) == 0 || r.Choices[0].Text == nil {
					return ""
				}
				return *r.Choices[0].Text
			}),
			Stop:    `"stop":["c"]`,
			Refused: map[string]string{"echo": `"echo":true`, "suffix": `"suffix":"x"`, "frequency_penalty": `"frequency_penalty":3`},
		},
		"responses": {
			Path: "/responses", Body: body(`"model":"m","input":%`), Problem: openaiProblem,
			Text: read(func(r *wire.ResponsesReply) string { return r.Output[0].Content[0].Text }),
			Streamed: joined(func(e *struct{ Type, Delta string }) string {
				return map[string]string{"response.output_text.delta": e.Delta}[e.Type]
			}),
			Tools: `"tools":[{"type":"function","name":"f","parameters":{}}]`, Call: `"arguments":"{\"a\":1}"`,
			Refused: map[string]string{
				"text.format": `"text":{"format":{"type":"json_schema"}}`, "tool_choice": `"tool_choice":"required"`, "background": `"background":true`,
				"previous_response_id": `"previous_response_id":"resp_x"`, "prompt": `"prompt":{"id":"x"}`,
				"reasoning.effort": `"reasoning":{"effort":"high"}`,
			},
		},
		"messages": {
			Path: "/messages", Body: body(`"model":"m","max_tokens":100,"messages":[{"role":"user","content":%}]`),
			Problem: read(func(r *anthropic.Refusal) string {
				if r.Type != "error" || r.Error.Type == "" {
					return ""
				}
				return r.Error.Message
			}),
			Text: read(func(r *anthropic.Response) string { return r.Content[0].Text }),
			Streamed: joined(func(e *struct {
				Type  string
				Delta struct{ Text string }
			}) string {
				return e.Delta.Text
			}),
			Stop: `"stop_sequences":["c"]`, Tools: `"tools":[{"name":"f","input_schema":{"type":"object"}}]`, Call: `"input":{"a":1},"name":"f"`,
			Refused: map[string]string{
				"tool_choice": `"tool_choice":{"type":"any"}`, "thinking": `"thinking":{"type":"enabled","budget_tokens":2000}`,
				"mcp_servers": `"mcp_servers":[{}]`, "output_config": `"output_config":{"format":{}}`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			trinitytest.Dialect(t, o, func(t *testing.T, m *trinity.Model, limits trinity.EndpointOptions) trinity.Endpoint {
				server := httptest.NewUnstartedServer(nil)
				g := New("http://"+server.Listener.Addr().String(), "m", m.Renderer, 257, nil)
				server.Config.Handler = g.Handler()
				server.Start()
				t.Cleanup(server.Close)
				return g.Open(t.Context(), m, limits)
			})
		})
	}
}
