package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// An endpoint knows why the newest call failed, until a later one succeeds.
func TestFailedCallsAreNoted(t *testing.T) {
	broken := &judge{err: trinity.NoAnswer("big", trinity.AskRefused, errors.New("no")), asked: new([]string)}
	const long = `{"messages":[{"role":"user","content":"LONG"}]}`
	ask := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"'one'"}]}`
	}
	type call struct{ path, body string }
	for name, c := range map[string]struct {
		calls []call
		want  trinity.FailureKind
	}{
		"none":                    {[]call{{chat, ask("m")}}, ""},
		"too long":                {[]call{{chat, long}}, trinity.FailedWorkflow},
		"too long, Anthropic's":   {[]call{{"/messages", strings.Replace(long, "{", `{"model":"m","max_tokens":5,`, 1)}}, trinity.FailedWorkflow},
		"too long, responses":     {[]call{{"/responses", `{"model":"m","input":"LONG"}`}}, trinity.FailedWorkflow},
		"too long, in a stream":   {[]call{{chat, strings.Replace(long, "{", `{"stream":true,`, 1)}}, trinity.FailedWorkflow},
		"too long, plain text":    {[]call{{"/completions", `{"prompt":"LONG"}`}}, trinity.FailedWorkflow},
		"another model":           {[]call{{chat, ask("big")}}, trinity.FailedModel},
		"another model, a stream": {[]call{{chat, strings.Replace(ask("big"), "{", `{"stream":true,`, 1)}}, trinity.FailedModel},
		"its log-probabilities":   {[]call{{"/logprobs", `{"tokens":[1,2],"model":"scorer"}`}}, trinity.FailedModel},
		"too many":                {[]call{{chat, ask("m")}, {chat, ask("m")}, {chat, ask("m")}}, trinity.FailedAgent},
		"excused":                 {[]call{{chat, ask("big")}, {chat, ask("m")}}, ""},
		"the newest":              {[]call{{chat, ask("m")}, {chat, ask("big")}, {chat, long}}, trinity.FailedWorkflow},
	} {
		scorer := &teacher{why: broken.err}
		e := open(t, trinity.EndpointOptions{Models: map[string]trinity.Asker{"*": nil, "big": broken, "scorer": scorer}, MaxCalls: 2})
		e.model.MaxPromptLen = 100
		for _, one := range c.calls {
			e.ask(one.path, strings.Replace(one.body, "LONG", strings.Repeat("long", 30), 1))
		}
		r, err := e.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.CallFailure; (got == nil) != (c.want == "") || got != nil && got.Kind != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}
