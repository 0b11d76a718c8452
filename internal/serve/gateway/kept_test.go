package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	api "github.com/openai/openai-go/v3/responses"

	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// A request without a model is answered by the one that is served, under its name.
func TestRepliesNameTheServedModel(t *testing.T) {
	web, _ := servedBy(t, time.Hour)
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"hi"}]%s}`,
		"/v1/completions":      `{"prompt":"hi"%s}`,
		"/v1/responses":        `{"input":"hi"%s}`,
		"/v1/messages":         `{"max_tokens":20,"messages":[{"role":"user","content":"hi"}]%s}`,
	} {
		for more, want := range map[string]string{"": `"model":"m"`, `,"stream":true`: `"model":"m"`, `,"model":"poet"`: `"model":"poet"`} {
			status, text := askServed(t, web, path, fmt.Sprintf(body, more), "Authorization", "Bearer key")
			if status != 200 || !strings.Contains(text, want) {
				t.Errorf("%s %s: %d %s", path, more, status, text)
			}
		}
	}
}

// OpenAI's own client lists what a response has answered, and deletes it. A response that continues it has the whole chat.
func TestKeptResponses(t *testing.T) {
	web, _ := servedBy(t, time.Hour)
	client := sdk.NewClient(option.WithBaseURL(web.URL+"/v1"), option.WithAPIKey("key"), option.WithMaxRetries(0))
	answer := func(text string, before param.Opt[string]) *api.Response {
		t.Helper()
		r, err := client.Responses.New(t.Context(), api.ResponseNewParams{
			Model: "m", Input: api.ResponseNewParamsInputUnion{OfString: sdk.String(text)}, PreviousResponseID: before,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := answer("one", param.Opt[string]{})
	second := answer("two", sdk.String(first.ID))
	page, err := client.Responses.InputItems.List(t.Context(), second.ID, api.InputItemListParams{Order: "asc", Limit: sdk.Int(2)})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	ids := map[string]bool{}
	for page != nil {
		for _, item := range page.Data {
			var read wire.Item
			if err := json.Unmarshal([]byte(item.RawJSON()), &read); err != nil {
				t.Fatal(err)
			}
			said = append(said, read.Role+" "+read.Content[0].Type+": "+read.Content[0].Text)
			ids[item.ID] = true
		}
		if page, err = page.GetNextPage(); err != nil {
			t.Fatal(err)
		}
	}
	const want = "user input_text: one, assistant output_text: by , user input_text: two"
	if got := strings.Join(said, ", "); got != want || len(ids) != 3 || ids[""] {
		t.Errorf("items %s with ids %v", got, ids)
	}
	if _, err := client.Responses.Cancel(t.Context(), second.ID); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("a response that has ended is cancelled: %v", err)
	}
	if err := client.Responses.Delete(t.Context(), first.ID); err != nil {
		t.Error(err)
	}
	bearer := []string{"Authorization", "Bearer key"}
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/v1/responses/" + first.ID, "", 404, "there is no response"},
		{"DELETE /v1/responses/" + first.ID, "", 404, "there is no response"},
		{"/v1/responses/" + first.ID + "/input_items", "", 404, `"code":"not_found"`},
		{"POST /v1/responses/" + first.ID + "/cancel", "", 404, "there is no response"},
		{"/v1/responses", `{"input":"x","previous_response_id":"` + first.ID + `"}`, 400, `"code":"previous_response_not_found"`},
		{"/v1/responses", `{"input":"x","previous_response_id":"` + second.ID + `"}`, 200, `"text":"by "`},
		{"/v1/responses/" + second.ID + "/input_items?limit=1", "", 200, `"text":"two"`}, // the newest first
		{"/v1/responses/" + second.ID + "/input_items?limit=0", "", 400, "want 1 to 100"},
		{"/v1/responses/" + second.ID + "/input_items?order=up", "", 400, "want asc or desc"},
		{"/v1/responses/" + second.ID + "/input_items?after=x", "", 400, `"param":"after"`},
		{"POST /v1/responses/" + second.ID + "/cancel", "", 400, "only one in the background can be cancelled"},
		{"/v1/responses/input_tokens", `{"input":"hi"}`, 200, `"object":"response.input_tokens"`},
		{"/v1/responses/input_tokens", `{}`, 400, `"param":"input"`},
		{"DELETE /v1/responses/" + second.ID, "", 200, `"deleted":true`},
		{"/v1/messages", `{"messages":[{"role":"user","content":"hi"}]}`, 400, `"max_tokens: the request has none`},
		{"/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"hi"}]}`, 200, `"input_tokens":`},
		{"/v1/messages/batches", `{}`, 404, `"type":"not_found_error"`},
	} {
		if status, text := askServed(t, web, c.path, c.body, bearer...); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.path, c.body, status, text, c.status, c.want)
		}
	}
}
