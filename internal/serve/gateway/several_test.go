package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/trinitytest"
)

// two are the models of a service with two, for which X-Api-Key names the client.
type two struct{ apis []*openai.Server }

func newTwo() *two {
	t := &two{}
	for _, name := range []string{"poet", "clerk"} {
		model := &openai.Served{Name: name, Sampler: saying("by " + name), Renderer: trinitytest.Chat{}, MaxLen: 512}
		t.apis = append(t.apis, &openai.Server{
			Name: name, Model: model.Of, Renderer: trinitytest.Chat{}, VocabSize: 1 << 20, Waiting: 2, Timeout: time.Minute, Say: func(string) {},
		})
	}
	return t
}

func (t *two) Servers() []*openai.Server      { return t.apis }
func (t *two) Owner(r *http.Request) string   { return r.Header.Get("X-Api-Key") }
func (t *two) Names(r *http.Request) []string { return []string{"poet", "clerk", "of " + t.Owner(r)} }

func (t *two) Of(_ *http.Request, name string) (*openai.Server, error) {
	for _, api := range t.apis {
		if api.Name == name {
			return api, nil
		}
	}
	return nil, &openai.Problem{Status: http.StatusNotFound, Code: "model_not_found", Message: "no " + name, After: 90 * time.Second}
}

// saying is a sampler that says the same to all.
type saying string

func (s saying) Sample(_ context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	c := trinity.Completion{Tokens: append(trinitytest.Chat{}.Encode(string(s)), trinitytest.ChatEnd), FinishReason: "stop"}
	c.Logprobs = make([]float32, len(c.Tokens))
	for i := range c.Tokens {
		if p.OnToken != nil {
			p.OnToken(0, c.At(i))
		}
	}
	return []trinity.Completion{c}, nil
}

// The model of a request answers it in every dialect. Clients see their own responses alone, which any model continues.
func TestSeveralModels(t *testing.T) {
	web := httptest.NewServer(ServedBy(newTwo(), time.Hour))
	t.Cleanup(web.Close)
	chat := func(model string) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":20,"messages":[{"role":"user","content":"hi"}]}`, model)
	}
	_, first := askServed(t, web, "/v1/responses", `{"model":"poet","input":"hi"}`, "X-Api-Key", "ann")
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(first), &made); err != nil {
		t.Fatal(first)
	}
	then := `{"model":"clerk","input":"and","previous_response_id":"` + made.ID + `"}`
	for _, c := range []struct {
		path, body, key string
		status          int
		want            string
	}{
		{"/v1/chat/completions", chat("poet"), "ann", 200, `"content":"by poet"`},
		{"/v1/chat/completions", chat("clerk"), "ann", 200, `"content":"by clerk"`},
		{"/v1/completions", `{"model":"clerk","prompt":"x"}`, "ann", 200, `"text":"by clerk"`},
		{"/v1/messages", chat("clerk"), "ann", 200, `"text":"by clerk"`},
		{"/v1/messages/count_tokens", chat("poet"), "ann", 200, `"input_tokens":`},
		{"/v1/messages", chat("x"), "ann", 404, `"type":"not_found_error"`},
		{"/v1/chat/completions", chat("x"), "ann", 404, `"code":"model_not_found","message":"no x"`},
		{"/v1/chat/completions", `[`, "ann", 400, "is not the JSON that is wanted"},
		{"/v1/responses/" + made.ID, "", "ann", 200, `"text":"by poet"`},
		{"/v1/responses/" + made.ID, "", "bob", 404, "there is no response"},
		{"/v1/responses", then, "ann", 200, `"text":"by clerk"`},
		{"/v1/responses", then, "bob", 400, "there is no response"},
		{"/v1/models", "", "ann", 200, `"id":"of ann"`},
		{"/v1/models/of%20ann", "", "ann", 200, `"id":"of ann"`},
		{"/v1/models/of%20ann", "", "bob", 404, `there is no model \"of ann\" here`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, "ann", 400, "ask for one of clerk, poet"},
		{"/v1/responses", `{"input":"hi"}`, "ann", 400, `"param":"model"`},
		{"/v1/messages", `{"max_tokens":1}`, "ann", 400, `"message":"model: the request names no model`},
		{"/v1/messages/batches", `{}`, "ann", 404, `"type":"not_found_error"`},
		{"GET /v1/messages", "", "ann", 404, `"message":"there is no GET /v1/messages here","type":"not_found_error"`},
		{"DELETE /v1/responses/" + made.ID, "", "bob", 404, "there is no response"},
		{"POST /v1/responses/" + made.ID + "/cancel", "", "bob", 404, "there is no response"},
		{"/v1/embeddings", `{"model":"poet"}`, "ann", 404, "there is no POST /v1/embeddings here"},
		{"/v1/files", "", "ann", 404, "there is no GET /v1/files here"},
	} {
		status, text := askServed(t, web, c.path, c.body, "X-Api-Key", c.key)
		if status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.key, c.path, c.body, status, text, c.status, c.want)
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/chat/completions"} { // how long to wait is a header in every dialect
		resp, err := http.Post(web.URL+path, "application/json", strings.NewReader(chat("x")))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if after := resp.Header.Get("Retry-After"); after != "91" {
			t.Errorf("%s: after %q", path, after)
		}
	}
}

// twice is a renderer that reads two calls in each reply.
type twice struct{ trinitytest.Chat }

func (twice) Read(tokens []int32, _ json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	calls := []trinity.ToolCall{{Name: "one", Arguments: json.RawMessage("{}")}, {Name: "two", Arguments: json.RawMessage("{}")}}
	return trinity.Message{Role: "assistant", Content: "both"}, calls, nil
}

// A client that wants one call a reply gets the first.
func TestOneCallOfAReply(t *testing.T) {
	model := &openai.Served{Name: "m", Sampler: saying("both!"), Renderer: twice{}, MaxLen: 512}
	api := &openai.Server{
		Name: "m", Model: model.Of, Renderer: twice{}, VocabSize: 1 << 20, Waiting: 2, Timeout: time.Minute, Say: func(string) {},
	}
	web := httptest.NewServer(Served(api, time.Hour))
	t.Cleanup(web.Close)
	const functions = `"tools":[{"type":"function","name":"one","function":{"name":"one"}}]`
	for _, c := range []struct{ path, body, one string }{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],` + functions + `%s}`, `,"parallel_tool_calls":false`},
		{"/v1/responses", `{"input":"hi",` + functions + `%s}`, `,"parallel_tool_calls":false`},
		{"/v1/messages", `{"max_tokens":20,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"one","input_schema":{}}]%s}`,
			`,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`},
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			for one, want := range map[string]bool{c.one: false, "": true} {
				status, text := askServed(t, web, c.path, fmt.Sprintf(c.body, one+stream), "X", "x")
				if status != 200 || !strings.Contains(text, `"name":"one"`) || strings.Contains(text, `"name":"two"`) != want {
					t.Errorf("%s%s%s: %d %s", c.path, one, stream, status, text)
				}
			}
		}
	}
}

// Equal requests have different replies, unless they set a seed.
func TestEqualRequestsHaveSeedsOfTheirOwn(t *testing.T) {
	var seeds []uint64
	model := &openai.Served{Name: "m", Sampler: seeing{&seeds}, Renderer: trinitytest.Chat{}, MaxLen: 512}
	api := &openai.Server{
		Name: "m", Model: model.Of, Renderer: trinitytest.Chat{}, VocabSize: 1 << 20, Waiting: 2, Timeout: time.Minute, Say: func(string) {},
	}
	web := httptest.NewServer(Served(api, time.Hour))
	t.Cleanup(web.Close)
	const chat = `{"max_tokens":20,"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ path, body string }{
		{"/v1/messages", chat + "}"}, {"/v1/responses", `{"input":"hi"}`}, {"/v1/chat/completions", chat + "}"},
	} {
		seeds = nil
		for range 2 {
			askServed(t, web, c.path, c.body, "X", "x")
		}
		if len(seeds) != 2 || seeds[0] == seeds[1] {
			t.Errorf("%s: seeds %v", c.path, seeds)
		}
	}
	for _, seed := range []uint64{0, 3} {
		if askServed(t, web, "/v1/chat/completions", chat+fmt.Sprintf(`,"seed":%d}`, seed), "X", "x"); seeds[len(seeds)-1] != seed {
			t.Errorf("seed %d is %d", seed, seeds[len(seeds)-1])
		}
	}
}

// seeing is a sampler that notes seeds.
type seeing struct{ seeds *[]uint64 }

func (s seeing) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	*s.seeds = append(*s.seeds, p.Seed)
	return saying("x").Sample(ctx, prompt, p)
}
