package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/trinity-go/trinity"
)

// A last message of the assistant is the beginning of the reply, in the API that has it so and where a
// request asks for it. The client gets the rest, and the policy's tokens alone are trained.
func TestALastMessageIsContinued(t *testing.T) {
	const ask, refused = "/chat/completions", "400"
	for _, c := range []struct{ path, body, want string }{ // want is what is recorded, or the refusal
		{"/messages", `"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":"Well,"}]`,
			"user:say 'hi'|assistant:Well,[hi|]"},
		{"/messages", `"stream":true,"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":[{"type":"text",` +
			`"text":"Well,","cache_control":{"type":"ephemeral"}}]}]`, "user:say 'hi'|assistant:Well,[hi|]"},
		{"/messages", `"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},` +
			`{"role":"user","content":"say 'hi'"},{"role":"assistant","content":"{"}]`,
			"system:s|user:a|assistant:b|user:say 'hi'|assistant:{[hi|]"},
		{"/messages", `"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":""}]`, "user:say 'hi'|assistant:[hi|]"},
		{"/messages", `"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":[{"type":"thinking","thinking":"x"}]}]`,
			"user:say 'hi'|assistant:[hi|]"},
		{"/messages", `"tools":[{"name":"f"}],"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":"Well,"}]`,
			"user:say 'hi'|assistant:Well,[hi|]"},
		{"/messages", `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f",` +
			`"input":{}}]}]`,
			refused + " the last message calls tools"},
		{ask, `"continue_final_message":true,"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":"Well,"}]`,
			"user:say 'hi'|assistant:Well,[hi|]"},
		{ask, `"continue_final_message":true,"add_generation_prompt":false,"stream":true,"messages":[{"role":"user","content":"say 'hi'"},` +
			`{"role":"assistant","content":"Well,","tool_calls":null}]`, "user:say 'hi'|assistant:Well,[hi|]"},
		{ask, `"messages":[{"role":"user","content":"say 'hi'"},{"role":"assistant","content":"Well,"}]`,
			"user:say 'hi'|assistant:Well,|assistant:[hi|]"},
		{ask, `"add_generation_prompt":true,"continue_final_message":false,"messages":[{"role":"user","content":"say 'hi'"}]`,
			"user:say 'hi'|assistant:[hi|]"},
		{ask, `"continue_final_message":true,"add_generation_prompt":true,"messages":[{"role":"assistant","content":"a"}]`,
			refused + " continue_final_message"},
		{ask, `"continue_final_message":true,"messages":[{"role":"user","content":"hi"}]`, refused + " does not end with a message"},
		{ask, `"add_generation_prompt":false,"messages":[{"role":"user","content":"hi"}]`, refused + " add_generation_prompt"},
		{"/completions", `"continue_final_message":true,"prompt":"hi"`, refused + " belongs to chats"},
	} {
		e := open(t, trinity.EndpointOptions{})
		status, text := e.ask(c.path, `{"max_tokens":20,`+c.body+`}`)
		if why, ok := strings.CutPrefix(c.want, refused+" "); ok {
			if status != http.StatusBadRequest || !strings.Contains(text, why) {
				t.Errorf("%s %s: %d %s, want %s", c.path, c.body, status, text, why)
			}
			continue
		}
		if status != http.StatusOK || strings.Contains(text, "Well") {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
		if _, got := e.recorded(); got != c.want {
			t.Errorf("%s %s:\ngot  %s\nwant %s", c.path, c.body, got, c.want)
		}
		closes := strings.Contains(c.want, "|assistant:[") && strings.Contains(c.want, "Well")
		if said := strings.Join(e.said, " "); strings.Contains(said, "its turn is closed") != closes {
			t.Errorf("%s %s: said %q", c.path, c.body, e.said)
		}
	}
}

// Anthropic's client begins every reply, and its chat is one sequence.
func TestBegunRepliesOfTheSDKAreOneSequence(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	client := anthropic.NewClient(option.WithBaseURL(strings.TrimSuffix(e.URL(), "/v1")), option.WithAPIKey(e.Key()))
	p := anthropic.MessageNewParams{Model: "m", MaxTokens: 20}
	for _, words := range []string{"say 'one'", "say 'two'"} {
		p.Messages = append(p.Messages, anthropic.NewUserMessage(anthropic.NewTextBlock(words)))
		begun := append(p.Messages, anthropic.NewAssistantMessage(anthropic.NewTextBlock("I say ")))
		counted, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{Model: "m", Messages: begun})
		if err != nil {
			t.Fatal(err)
		}
		m, err := client.Messages.New(t.Context(), anthropic.MessageNewParams{Model: "m", MaxTokens: 20, Messages: begun})
		if err != nil {
			t.Fatal(err)
		}
		if m.Usage.InputTokens != counted.InputTokens {
			t.Errorf("%d tokens were read, %d were counted", m.Usage.InputTokens, counted.InputTokens)
		}
		p.Messages = append(p.Messages, anthropic.NewAssistantMessage(anthropic.NewTextBlock("I say "+m.Content[0].Text)))
	}
	_, got := e.recorded()
	if want := "user:say 'one'|assistant:I say [one|]user:say 'two'|assistant:I say [two|]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A role that no API knows is refused, by the place of its message.
func TestRolesThatNoAPIKnows(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	for path, body := range map[string]string{
		"/chat/completions": `{"messages":[{"role":"user","content":"a"},{"role":"%","content":"hi"}]}`,
		"/responses":        `{"input":[{"role":"user","content":"a"},{"role":"%","content":"hi"}]}`,
		"/messages":         `{"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"%","content":"hi"}]}`,
	} {
		for _, role := range []string{"wizard", "User", "bot", "ai", "human", " user", "critic"} {
			status, text := e.ask(path, strings.Replace(body, "%", role, 1))
			if status != http.StatusBadRequest || !strings.Contains(text, `[1].role is \"`+role+`\"`) {
				t.Errorf("%s, role %q: %d %s", path, role, status, text)
			}
		}
		if status, text := e.ask(path, strings.Replace(body, "%", "user", 1)); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
