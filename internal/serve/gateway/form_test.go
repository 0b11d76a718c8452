package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/trinitytest"
)

// formed is a constraint that nobody follows.
type formed struct{ trinity.Constraint }

// obedient answers with x, and says whether it was constrained.
type obedient struct{}

func (obedient) Sample(_ context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	c := trinity.Completion{
		Tokens: append(trinitytest.Chat{}.Encode("x"), trinitytest.ChatEnd), FinishReason: "stop", Changed: p.Constrains(),
	}
	c.Logprobs = make([]float32, len(c.Tokens))
	return []trinity.Completion{c}, nil
}

// reading reads texts alone.
type reading struct{ trinitytest.Chat }

func (r reading) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	return r.ReadText(tokens), nil, nil
}

// Every dialect asks for the same forms.
func TestFormsInAllDialects(t *testing.T) {
	var asked constraint.Form
	model := &openai.Served{Name: "m", Sampler: obedient{}, Renderer: reading{}, MaxLen: 512,
		Constrain: func(f constraint.Form) (trinity.Constraint, error) {
			if asked = f; strings.Contains(string(f.Schema), "broken") {
				return nil, errors.New("at #/x: broken")
			}
			return formed{}, nil
		}}
	api := &openai.Server{Name: "m", Model: model.Of, Renderer: reading{}, VocabSize: 1 << 20, Waiting: 2, Timeout: time.Minute}
	web := httptest.NewServer(Served(api, time.Hour))
	t.Cleanup(web.Close)
	const (
		openaiTools = `"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`
		claudeTools = `"tools":[{"name":"f","input_schema":{"type":"object"}}]`
		message     = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`
	)
	for _, c := range []struct {
		path, keys string
		form       constraint.Form // its tools are left out
		refused    string
	}{
		{"/v1/responses", `"text":{"format":{"type":"json_schema","name":"x","strict":true,"schema":{"a":1}}}`,
			constraint.Form{Schema: json.RawMessage(`{"a":1}`), Opens: true}, ""},
		{"/v1/responses", `"text":{"format":{"type":"json_object"}}`, constraint.Form{Schema: openai.AnyObject, Opens: true}, ""},
		{"/v1/responses", openaiTools + `,"tool_choice":"required"`, constraint.Form{Calls: &constraint.Calls{Several: true}, Opens: true}, ""},
		{"/v1/responses", openaiTools + `,"tool_choice":"required","parallel_tool_calls":false`,
			constraint.Form{Calls: &constraint.Calls{}, Opens: true}, ""},
		{"/v1/responses", openaiTools + `,"tool_choice":{"type":"function","name":"f"}`,
			constraint.Form{Calls: &constraint.Calls{Name: "f"}, Opens: true}, ""},
		{"/v1/responses", openaiTools + `,"text":{"format":{"type":"json_object"}}`,
			constraint.Form{Schema: openai.AnyObject, Calls: &constraint.Calls{Several: true, Maybe: true}, Opens: true}, ""},
		{"/v1/responses", `"text":{"format":{"type":"json_schema"}}`, constraint.Form{}, "it has no schema"},
		{"/v1/responses", `"text":{"format":{"type":"json_schema","schema":{"broken":1}}}`, constraint.Form{}, "text.format: at #/x: broken"},
		{"/v1/responses", `"tool_choice":"required"`, constraint.Form{}, "without tools"},
		{"/v1/messages", message + `,"output_config":{"format":{"type":"json_schema","schema":{"a":1}}}`,
			constraint.Form{Schema: json.RawMessage(`{"a":1}`), Opens: true}, ""},
		{"/v1/messages", message + `,` + claudeTools + `,"tool_choice":{"type":"any"}`,
			constraint.Form{Calls: &constraint.Calls{Several: true}, Opens: true}, ""},
		{"/v1/messages", message + `,` + claudeTools + `,"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`,
			constraint.Form{Calls: &constraint.Calls{Name: "f"}, Opens: true}, ""},
		{"/v1/messages", message + `,"output_config":{"format":{"type":"json"}}`, constraint.Form{}, "want the type json_schema"},
		{"/v1/messages", message + `,"tool_choice":{"type":"any"}`, constraint.Form{}, "without tools"},
	} {
		body := `{"model":"m",` + c.keys + `}`
		if c.path == "/v1/responses" {
			body = `{"model":"m","input":"hi",` + c.keys + `}`
		}
		asked = constraint.Form{}
		status, text := askServed(t, web, c.path, body, "X", "x")
		if c.refused != "" {
			if status != 400 || !strings.Contains(text, c.refused) {
				t.Errorf("%s: %d %s, want %s", body, status, text, c.refused)
			}
			continue
		}
		if asked.Calls != nil {
			if !strings.Contains(string(asked.Calls.Tools), `"function":{`) {
				t.Errorf("%s: tools %s", body, asked.Calls.Tools)
			}
			asked.Calls.Tools = nil
		}
		got, _ := json.Marshal(asked)
		want, _ := json.Marshal(c.form)
		if string(got) != string(want) || status != 200 || !strings.Contains(text, `"sampled_from":"constrained"`) {
			t.Errorf("%s: %d %s\nasked %s\nwant  %s", body, status, text, got, want)
		}
	}
}
