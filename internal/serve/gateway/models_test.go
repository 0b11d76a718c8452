package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/trinity-go/trinity"
)

// judge answers with its name, or fails.
type judge struct {
	name   string
	err    error
	mu     sync.Mutex
	asked  *[]string
	heated *float32
}

func (j *judge) Ask(_ context.Context, messages []trinity.Message, o trinity.AskOptions) (trinity.Answer, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	*j.asked = append(*j.asked, fmt.Sprint(messages[len(messages)-1].Content, " ", o.MaxTokens))
	j.heated = o.Temperature
	return trinity.Answer{Message: trinity.Message{Role: "assistant", Content: "I am " + j.name + ", not you"}}, j.err
}

func TestNamesOfModels(t *testing.T) {
	var asked []string
	mini, nano := &judge{name: "mini", asked: &asked}, &judge{name: "nano", asked: &asked}
	models := map[string]trinity.Asker{"*": nil, "*-mini": mini, "*-4-mini": nano, "gpt-[45]": nil}
	e := open(t, trinity.EndpointOptions{Models: models, MaxCalls: 8})
	body := func(model, more string) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":20,"messages":[{"role":"user","content":"'one'"}]%s}`, model, more)
	}
	for _, c := range []struct{ path, body, want string }{
		{chat, body("gpt-5", ""), `"content":"one"`},
		{chat, body("a/gpt-3-mini", ""), `"content":"I am mini, not you"`},
		{chat, body("gpt-4-mini", `,"stop":", not"`), `"content":"I am nano"`},
		{chat, body("gpt-4-mini", `,"stream":true`), `"delta":{"content":"I am nano, not you","role":"assistant"}`},
		{"/messages", body("claude-mini", `,"temperature":0.5`), `"text":"I am mini, not you"`},
		{"/responses", `{"model":"gpt-3-mini","input":"hi"}`, `"text":"I am mini, not you"`},
		{chat, body("gpt-3-mini", `,"n":2`), `"index":1`},
	} {
		if status, text := e.ask(c.path, c.body); status != http.StatusOK || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, status, text, c.want)
		}
	}
	if len(asked) != 7 || asked[0] != "'one' 20" || mini.heated != nil {
		t.Errorf("asked %q, at %v", asked, mini.heated)
	}
	if status, text := e.ask(chat, body("gpt-3-mini", "")); status != http.StatusTooManyRequests {
		t.Errorf("call 9 of 8: %d %s", status, text)
	}
	for _, c := range []struct{ path, body, want string }{
		{chat, body("x-mini", `,"tools":[{"type":"function","function":{"name":"f"}}]`), `"param":"tools"`},
		{chat, body("x-mini", `,"logprobs":true`), `"param":"logprobs"`},
		{"/completions", `{"model":"x-mini","prompt":"hi"}`, `"param":"prompt"`},
		{"/messages/count_tokens", body("x-mini", ""), `only the policy's tokens are counted`},
	} {
		if status, text := e.ask(c.path, c.body); status != http.StatusBadRequest || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s, want %s", c.body, status, text, c.want)
		}
	}
	if _, got := e.recorded(); got != "user:'one'|assistant:[one|]" {
		t.Errorf("recorded %s", got)
	}
}

func TestAModelThatIsNotTheirs(t *testing.T) {
	var asked []string
	j := &judge{asked: &asked}
	e := open(t, trinity.EndpointOptions{Models: map[string]trinity.Asker{"judge": j}, Sampling: trinity.SamplingOfRequest})
	ask := func(model, more string) (int, string) {
		return e.ask(chat, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]`+more+`}`)
	}
	if status, text := ask("gpt-9", ""); status != http.StatusNotFound || !strings.Contains(text, `no entry of models in workflow_args`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("judge", `,"top_p":0.5`); status != http.StatusBadRequest || !strings.Contains(text, `"param":"top_p"`) {
		t.Errorf("%d %s", status, text)
	}
	if ask("judge", `,"temperature":0.25`); j.heated == nil || *j.heated != 0.25 {
		t.Errorf("asked at %v", j.heated)
	}
	for reason, want := range map[trinity.AskReason]int{trinity.AskRefused: 400, trinity.AskTimedOut: 504, trinity.AskUnreachable: 502} {
		j.err = trinity.NoAnswer("judge", reason, errors.New("it is late"))
		if status, text := ask("judge", ""); status != want || !strings.Contains(text, "it is late") {
			t.Errorf("%s: %d %s, want %d", reason, status, text, want)
		}
	}
	j.err = &trinity.EngineError{Err: errors.New("no memory")}
	ask("judge", "")
	if _, err := e.Close(); !errors.As(err, new(*trinity.EngineError)) {
		t.Errorf("error %v", err)
	}
}

// The names that a request may ask for are listed.
func TestModelsAreListed(t *testing.T) {
	judge := &judge{asked: new([]string)}
	for _, c := range []struct {
		models map[string]trinity.Asker
		want   string
	}{
		{nil, "m"},
		{map[string]trinity.Asker{"*": nil, "*-mini": judge, "small": judge, "gpt-4o": nil}, "m gpt-4o small"},
		{map[string]trinity.Asker{"small": judge}, "small"},
	} {
		e := open(t, trinity.EndpointOptions{Models: c.models})
		client := sdk.NewClient(option.WithBaseURL(e.URL()), option.WithAPIKey(e.Key()))
		list, err := client.Models.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range list.Data {
			names = append(names, m.ID)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%v: %q is listed, want %q", c.models, got, c.want)
		}
	}
}
