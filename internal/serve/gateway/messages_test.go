package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// A chat over Anthropic's API, with a tool, is one sequence. Its JSON differs from ours, and the ids
// stay.
func TestMessagesAreOneSequence(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	const begin = `{"model":"claude-9","max_tokens":1000,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],` +
		`"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"say 'hm!{\"b\": 1, \"a\": 2}'"}`
	status, text := e.ask("/messages", begin+`]}`)
	for _, want := range []string{`{"text":"hm","type":"text"}`, `"input":{"b":1,"a":2},"name":"f","type":"tool_use"`, `"id":"call00000"`,
		`"stop_reason":"tool_use"`, `"model":"claude-9"`, `"output_tokens":20`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d %s, want %s", status, text, want)
		}
	}
	const more = `,{"role":"assistant","content":[{"type":"text","text":"hm"},` +
		`{"type":"tool_use","id":"call00000","name":"f","input":{"a":2,"b":1}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call00000","content":[{"type":"text","text":"'42'"}]}]}`
	if _, text := e.ask("/messages/count_tokens", begin+more+`]}`); !strings.HasPrefix(text, `{"input_tokens":`) {
		t.Error(text)
	}
	if status, text := e.ask("/messages", begin+more+`]}`); status != http.StatusOK || !strings.Contains(text, `"stop_reason":"end_turn"`) {
		t.Errorf("%d %s", status, text)
	}
	want := `system:be brief|user:say 'hm!{"b": 1, "a": 2}'|assistant:[hm!{"b": 1, "a": 2}|]tool:'42'|assistant:[42|]`
	if _, got := e.recorded(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestAStreamOfMessages(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	_, text := e.ask("/messages", `{"stream":true,"max_tokens":40,"stop_sequences":["c"],"messages":[{"role":"user","content":"'abcd'"}]}`)
	var kinds []string
	for line := range strings.Lines(text) {
		if kind, ok := strings.CutPrefix(line, "event: "); ok {
			kinds = append(kinds, strings.TrimSpace(kind))
		}
	}
	const want = "message_start content_block_start content_block_delta content_block_delta content_block_stop message_delta message_stop"
	if strings.Join(kinds, " ") != want || !strings.Contains(text, `{"text":"b","type":"text_delta"}`) ||
		!strings.Contains(text, `"stop_reason":"stop_sequence","stop_sequence":"c"`) {
		t.Errorf("%s:\n%s", kinds, text)
	}
	e.ask("/messages", `{"max_tokens":2,"messages":[{"role":"user","content":"'abcd'"},{"role":"assistant","content":"ab"},`+
		`{"role":"user","content":"'two'"}]}`)
	if _, got := e.recorded(); got != "user:'abcd'|assistant:[abcd|]user:'two'|assistant:[tw]" {
		t.Errorf("recorded %s", got)
	}
}

// What the gateway cannot do is refused by the name of its field.
func TestMessagesThatAreRefused(t *testing.T) {
	e := open(t, trinity.EndpointOptions{MaxCalls: 1})
	const chat = `"max_tokens":5,"messages":[{"role":"user","content":"hi"}]`
	for body, want := range map[string]string{
		`{`:                `not the JSON that is wanted`,
		`{"max_tokens":5}`: `messages: there are no messages`,
		`{"tool_choice":{"type":"any"},` + chat + `}`:                                 `tool_choice: \"any\" is not supported`,
		`{"thinking":{"type":"enabled","budget_tokens":9},` + chat + `}`:              `thinking: \"enabled\" needs a model`,
		`{"mcp_servers":[{}],` + chat + `}`:                                           `mcp_servers: it is not supported`,
		`{"tools":[{"type":"web_search_20250305","name":"w"}],` + chat + `}`:          `tools: a tool of type`,
		`{"messages":[{"role":"user","content":[{"type":"image"}]}]}`:                 `an image whose source is of type`,
		`{"messages":[{"role":"wizard","content":"hi"}]}`:                             `"messages[0].role is \"wizard\"`,
		`{"stop_sequences":[""],` + chat + `}`:                                        `stop_sequences: a text of 0 bytes`,
		`{"temperature":-1,` + chat + `}`:                                             `"temperature is -1`,
		`{"messages":[{"role":"user","content":"` + strings.Repeat("x", 300) + `"}]}`: `leaves no room`,
	} {
		status, text := e.ask("/messages", body)
		if status != http.StatusBadRequest || !strings.Contains(text, want) || !strings.HasPrefix(text, `{"error":{"message":`) {
			t.Errorf("%s: %d %s, want %s", body, status, text, want)
		}
	}
	if status, _ := e.ask("/messages", `{"metadata":{"user_id":"x"},"container":null,`+chat+`}`); status != http.StatusOK {
		t.Errorf("harmless fields: %d", status)
	}
	if status, text := e.ask("/messages", `{`+chat+`}`); status != http.StatusTooManyRequests || !strings.Contains(text, "rate_limit_error") {
		t.Errorf("a second call of one: %d %s", status, text)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(`{"max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"y"}]}]}`)
	f.Add(`{"system":"s","stream":true,"tools":[{"name":"f"}],"messages":[{"role":"assistant","content":[{"type":"tool_use"}]}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := open(t, trinity.EndpointOptions{})
		if status, text := e.ask("/messages", body+" "); status != http.StatusOK && status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, status, text)
		}
	})
}

// withLimit adds max_tokens to a request for a message, unless it has some: the API demands them.
func withLimit(path, body string) string {
	if path == "/messages" && strings.HasPrefix(body, `{"`) && !strings.Contains(body, `"max_tokens"`) {
		return `{"max_tokens":4096,` + body[1:]
	}
	return body
}
