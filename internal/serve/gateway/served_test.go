package gateway

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
	"github.com/trinity-go/trinity/trinitytest"
)

// named is a sampler that answers with the name of the adapter.
type named struct{ prompts []string }

func (n *named) Sample(_ context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	n.prompts = append(n.prompts, trinitytest.Chat{}.Decode(prompt.Tokens))
	c := trinity.Completion{Tokens: append(trinitytest.Chat{}.Encode("by "+p.Adapter), trinitytest.ChatEnd), FinishReason: "stop"}
	c.Logprobs = make([]float32, len(c.Tokens))
	for i := range c.Tokens {
		if p.OnToken != nil {
			p.OnToken(0, c.At(i))
		}
	}
	return []trinity.Completion{c}, nil
}

func servedBy(t *testing.T, keep time.Duration) (*httptest.Server, *named) {
	t.Helper()
	sampler := &named{}
	adapters := func() []string { return []string{"poet"} }
	model := &openai.Served{Name: "m", Sampler: sampler, Renderer: trinitytest.Chat{}, MaxLen: 512, Adapters: adapters}
	api := &openai.Server{
		Name: "m", Model: model.Of, Renderer: trinitytest.Chat{}, VocabSize: 1 << 20, Adapters: adapters, Waiting: 2, Timeout: time.Minute,
		Token: "key", Say: func(string) {},
	}
	web := httptest.NewServer(Served(api, keep))
	t.Cleanup(web.Close)
	return web, sampler
}

// askServed sends a request: POST with a body, GET without, or the method before the path.
func askServed(t *testing.T, web *httptest.Server, path, body string, header ...string) (status int, text string) {
	t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	if named, rest, ok := strings.Cut(path, " "); ok {
		method, path = named, rest
	}
	r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header[0], header[1])
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(data)
}

// A server answers each dialect, for the model by its name and for each adapter by the adapter's.
func TestServedModelSpeaksAllDialects(t *testing.T) {
	web, _ := servedBy(t, time.Hour)
	bearer, key := []string{"Authorization", "Bearer key"}, []string{"X-Api-Key", "key"}
	messages := func(model, more string) string {
		return `{"model":"` + model + `","max_tokens":20,"messages":[{"role":"user","content":"hi"}]` + more + `}`
	}
	for _, c := range []struct {
		path, body string
		header     []string
		status     int
		want       []string
	}{
		{"/v1/models", "", bearer, 200, []string{`"id":"m"`, `"id":"poet"`}},
		{"/v1/chat/completions", messages("poet", ""), bearer, 200, []string{`"content":"by poet"`, `"model":"poet"`}},
		{"/v1/chat/completions", messages("m", ""), bearer, 200, []string{`"content":"by "`, `"model":"m"`}},
		{"/v1/chat/completions", messages("x", ""), bearer, 404, []string{`ask for \"m\" or \"poet\"`}},
		{"/v1/messages", messages("poet", ""), key, 200, []string{`"text":"by poet"`, `"stop_reason":"end_turn"`, `"model":"poet"`}},
		{"/v1/messages", messages("m", `,"stream":true`), key, 200, []string{"event: message_start", `"text_delta"`, "event: message_stop"}},
		{"/v1/messages/count_tokens", messages("m", ""), key, 200, []string{`"input_tokens":`}},
		{"/v1/messages", messages("x", ""), key, 404, []string{`"type":"not_found_error"`}},
		{"/v1/messages", messages("m", ""), []string{"X-Api-Key", "other"}, 401, []string{`"type":"authentication_error"`}},
		{"/v1/responses", `{"model":"poet","input":"hi"}`, bearer, 200, []string{`"text":"by poet"`, `"status":"completed"`}},
		{"/v1/responses", `{"model":"m","input":"hi","stream":true}`, bearer, 200,
			[]string{"event: response.created", "event: response.completed"}},
		{"/v1/responses", `{"model":"m","input":"hi"}`, []string{"Authorization", "Bearer x"}, 401, []string{"invalid_api_key"}},
		{"/v1/responses/resp_x", "", bearer, 404, []string{`there is no response \"resp_x\" here`}},
		{"/v1/rollout", "", bearer, 404, []string{"there is no GET /v1/rollout here"}},
		{"/health", "", []string{"X", "x"}, 200, nil},
	} {
		status, text := askServed(t, web, c.path, c.body, c.header...)
		for _, want := range c.want {
			if status != c.status || !strings.Contains(text, want) {
				t.Errorf("%s %s: %d %s, want %d %s", c.path, c.body, status, text, c.status, want)
			}
		}
	}
}

// A response is continued by its id while it is kept.
func TestResponsesAreContinued(t *testing.T) {
	web, sampler := servedBy(t, time.Hour)
	idOf := func(text string) string {
		_, rest, _ := strings.Cut(text, `"id":"resp_`)
		id, _, _ := strings.Cut(rest, `"`)
		return "resp_" + id
	}
	_, text := askServed(t, web, "/v1/responses", `{"model":"m","input":"one"}`, "Authorization", "Bearer key")
	id := idOf(text)
	status, text := askServed(t, web, "/v1/responses", `{"model":"poet","input":"two","previous_response_id":"`+id+`"}`,
		"Authorization", "Bearer key")
	last := sampler.prompts[len(sampler.prompts)-1]
	if status != 200 || !strings.Contains(last, "one") || !strings.Contains(last, "by ") || !strings.Contains(last, "two") {
		t.Errorf("%d %s: the model read %q", status, text, last)
	}
	if status, text = askServed(t, web, "/v1/responses/"+id, "", "Authorization", "Bearer key"); status != 200 || idOf(text) != id {
		t.Errorf("%d %s", status, text)
	}
	_, text = askServed(t, web, "/v1/responses", `{"model":"m","input":"one","store":false}`, "Authorization", "Bearer key")
	if status, text = askServed(t, web, "/v1/responses/"+idOf(text), "", "Authorization", "Bearer key"); status != 404 {
		t.Errorf("one that is not to be kept: %d %s", status, text)
	}
}

// Responses leave when their time has passed, and the oldest when there are too many or too large ones.
func TestResponsesLeave(t *testing.T) {
	clock := time.Unix(1000, 0)
	whole := newResponseCache(time.Hour)
	whole.most, whole.now = 3000, func() time.Time { return clock }
	c, other := whole.of("one"), whole.of("other")
	put := func(id string, text string) {
		c.keep(responded{&wire.ResponsesReply{ID: id}, []trinity.Message{{Role: "user", Content: text}}, nil})
	}
	has := func(id string) bool { _, known := c.kept(id); return known }
	put("a", "x")
	clock = clock.Add(59 * time.Minute)
	put("b", "x")
	if !has("a") || !has("b") {
		t.Error("a response has left early")
	}
	clock = clock.Add(time.Minute)
	if has("a") || !has("b") {
		t.Error("after an hour the first is gone, and the second is not")
	}
	large := strings.Repeat("x", 1000)
	for _, id := range []string{"c", "d", "e"} {
		put(id, large)
	}
	if has("b") || has("c") || !has("d") || !has("e") || c.bytes > 3000 {
		t.Errorf("%d bytes are kept", c.bytes)
	}
	other.keep(responded{&wire.ResponsesReply{ID: "small"}, nil, nil})
	put("f", large)
	if _, known := other.kept("small"); !known || has("d") || !has("f") {
		t.Error("a response leaves because of another client's")
	}
	if _, known := other.kept("f"); known {
		t.Error("a client sees another's response")
	}
	clock = clock.Add(2 * time.Hour)
	if has("f") || len(c.all) != 0 || c.bytes != 0 || whole.count != 0 || whole.bytes != 0 {
		t.Errorf("%d responses, %d bytes are left, %d and %d in all", len(c.all), c.bytes, whole.count, whole.bytes)
	}
}
