package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// Every dialect either does what a field asks for or refuses it by name. None ignores it.
func TestDialectsHonourOrRefuseFields(t *testing.T) {
	for _, sampling := range []trinity.Sampling{trinity.SamplingOfTaskset, trinity.SamplingOfRequest} {
		honourOrRefuse(t, open(t, trinity.EndpointOptions{Sampling: sampling}))
	}
}

func honourOrRefuse(t *testing.T, e *endpoint) {
	t.Helper()
	bodies := map[string]string{
		"/chat/completions": `"messages":[{"role":"user","content":"say 'abcdef'"}]`,
		"/completions":      `"prompt":"say 'abcdef'"`,
		"/responses":        `"input":"say 'abcdef'"`,
		"/messages":         `"max_tokens":20,"messages":[{"role":"user","content":"say 'abcdef'"}]`,
	}
	const tools = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, c := range []struct{ paths, field, want string }{ // want is a part of the reply, or "" if the field is refused
		{"/chat/completions /completions /responses", `"tool_choice":"required"`, ""},
		{"/messages", `"tool_choice":{"type":"any"}`, ""},
		{"/messages", `"tool_choice":{"type":"tool","name":"f"}`, ""},
		{"/responses", `"tool_choice":{"type":"function","name":"f"}`, ""},
		{"/chat/completions", `"tool_choice":"none"` + tools, "abcdef"},
		{"/completions", tools[1:], ""},
		{"/chat/completions /completions /responses /messages", `"response_format":{"type":"json_object"}`, ""},
		{"/responses", `"text":{"format":{"type":"json_schema","name":"x","schema":{}}}`, ""},
		{"/chat/completions /completions", `"n":2`, `"index":1`},
		{"/responses /messages", `"n":2`, ""},
		{"/chat/completions", `"logprobs":true`, `"logprob":-0.125`},
		{"/completions", `"logprobs":0`, `"token_logprobs":[-0.125`},
		{"/responses /messages", `"logprobs":true`, ""},
		{"/responses", `"include":["message.output_text.logprobs"]`, `"logprobs":[{"logprob":-0.125,"token":"a","top_logprobs":[]}`},
		{"/responses", `"include":["message.output_text.logprobs"],"top_logprobs":1`, `"top_logprobs":[{"logprob":-0.0625`},
		{"/responses", `"top_logprobs":21,"include":["message.output_text.logprobs"]`, ""},
		{"/chat/completions", `"logprobs":true,"top_logprobs":1`, `"logprob":-0.0625`},
		{"/completions /responses /messages", `"top_logprobs":2`, ""},
		{"/chat/completions /completions", `"stop":"cd"`, `"ab"`},
		{"/messages", `"stop_sequences":["cd"]`, `"ab"`},
		{"/responses /messages", `"stop":"cd"`, ""},
		{"/chat/completions /completions", `"seed":3`, "abcdef"},
		{"/responses /messages", `"seed":3`, ""},
		{"/chat/completions /completions /responses /messages", `"temperature":0.00001`, ""},
		{"/chat/completions /completions /responses /messages", `"top_p":0`, ""},
		{"/chat/completions /completions /messages", `"top_k":-2`, ""},
		{"/chat/completions", `"reasoning_effort":"none","verbosity":"low"`, "abcdef"},
		{"/chat/completions", `"reasoning_effort":"low"`, ""},
		{"/chat/completions", `"verbosity":"high"`, ""},
		{"/responses", `"reasoning":{"effort":"none"},"text":{"verbosity":"medium"}`, "abcdef"},
		{"/responses", `"reasoning":{"effort":"low"}`, ""},
		{"/responses", `"text":{"verbosity":"high"}`, ""},
		{"/chat/completions /responses", `"parallel_tool_calls":false`, "abcdef"},
		{"/chat/completions", `"parallel_tool_calls":true` + tools, "abcdef"},
		{"/chat/completions", `"parallel_tool_calls":false` + tools, ""},
		{"/responses", `"parallel_tool_calls":false,"tools":[{"type":"function","name":"f","parameters":{}}]`, ""},
		{"/messages", `"tool_choice":{"type":"auto","disable_parallel_tool_use":true},"tools":[{"name":"f"}]`, ""},
	} {
		for path := range strings.FieldsSeq(c.paths) {
			status, text := e.ask(path, "{"+bodies[path]+","+c.field+"}")
			name, _, _ := strings.Cut(c.field[1:], `"`)
			switch {
			case c.want != "" && (status != http.StatusOK || !strings.Contains(text, c.want)):
				t.Errorf("%s %s: %d %s, want %s", path, c.field, status, text, c.want)
			case c.want == "" && (status != http.StatusBadRequest || !strings.Contains(text, name)):
				t.Errorf("%s %s: %d %s, want 400 with the name", path, c.field, status, text)
			}
		}
	}
}

// A request that demands a call of a tool is refused in every dialect, with what to set, or answered as
// one that leaves the choice to the policy.
func TestRequiredTools(t *testing.T) {
	const tools = `,"tools":[{"type":"function","name":"f","function":{"name":"f"}}]`
	bodies := map[string]string{
		"/chat/completions": `{"messages":[{"role":"user","content":"say 'ab'"}]` + tools + `,"tool_choice":%s}`,
		"/responses":        `{"input":"say 'ab'"` + tools + `,"tool_choice":%s}`,
		"/messages": `{"max_tokens":20,"messages":[{"role":"user","content":"say 'ab'"}],"tools":[{"name":"f","input_schema":{}}],` +
			`"tool_choice":%s}`,
	}
	for _, c := range []struct {
		path, choice string
		is           string // auto, or what demands: a call, or something else
	}{
		{"/chat/completions", `"required"`, "a call"},
		{"/chat/completions", `{"type":"function","function":{"name":"f"}}`, "a call"},
		{"/chat/completions", `{"function":{"name":"f"},"type":"function"}`, "a call"},
		{"/chat/completions", `"auto"`, "auto"},
		{"/chat/completions", `null`, "auto"},
		{"/chat/completions", `{"type":"function"}`, "something else"},
		{"/chat/completions", `{"type":"custom","custom":{"name":"f"}}`, "something else"},
		{"/chat/completions", `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}`, "something else"},
		{"/chat/completions", `"any"`, "something else"},
		{"/chat/completions", `5`, "something else"},
		{"/responses", `"required"`, "a call"},
		{"/responses", `{"type":"function","name":"f"}`, "a call"},
		{"/responses", `{"type":"web_search"}`, "something else"},
		{"/responses", `"auto"`, "auto"},
		{"/messages", `{"type":"any"}`, "a call"},
		{"/messages", `{"type":"tool","name":"f"}`, "a call"},
		{"/messages", `{"type":"tool"}`, "something else"},
		{"/messages", `{"type":"auto"}`, "auto"},
	} {
		for _, optional := range []bool{false, true} {
			e := open(t, trinity.EndpointOptions{ToolsAreOptional: optional})
			e.reply("user:say 'no'")
			status, text := e.ask(c.path, fmt.Sprintf(bodies[c.path], c.choice))
			hint := strings.Contains(text, "required_tools: auto in workflow_args")
			answered := c.is == "auto" || c.is == "a call" && optional
			switch {
			case answered && (status != http.StatusOK || !strings.Contains(text, `"ab"`)):
				t.Errorf("%s %s with %v: %d %s", c.path, c.choice, optional, status, text)
			case !answered && (status != http.StatusBadRequest || !strings.Contains(text, "tool_choice") || hint != (c.is == "a call")):
				t.Errorf("%s %s with %v: %d %s", c.path, c.choice, optional, status, text)
			}
		}
	}
	e := open(t, trinity.EndpointOptions{ToolsAreOptional: true})
	for _, choice := range []string{`"required"`, `"auto"`} { // the policy reads the same
		e.ask(chat, fmt.Sprintf(bodies[chat], choice))
	}
	if !slices.Equal(e.policy.reads[0], e.policy.reads[1]) {
		t.Errorf("the policy reads %v and %v", e.policy.reads[0], e.policy.reads[1])
	}
}

// Where the run asks for a least length, a stop string is refused, because it could end the client's
// text before the reply.
func TestStopsBesideALeastLengthAreRefused(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	for least, want := range []int{http.StatusOK, http.StatusOK, http.StatusBadRequest} {
		e.model.Params.MinTokens = least
		for path, body := range map[string]string{
			"/chat/completions": `{"stop":"c","messages":[{"role":"user","content":"say 'abcdef'"}]}`,
			"/messages":         `{"stop_sequences":["c"],"max_tokens":9,"messages":[{"role":"user","content":"say 'abcdef'"}]}`,
		} {
			if status, text := e.ask(path, body); status != want || want != http.StatusOK && !strings.Contains(text, "stop") {
				t.Errorf("%s with at least %d tokens: %d %s", path, least, status, text)
			}
		}
	}
}

// A body of another type is refused in one line, which names no type of Go.
func TestBodiesOfAnotherType(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	for _, c := range []struct{ paths, body, want string }{
		{"/chat/completions /completions /responses /messages", `[]`, "the request is a JSON array: want a JSON object"},
		{"/chat/completions /completions /responses /messages", `5`, "the request is a JSON number: want a JSON object"},
		{"/chat/completions /completions /responses /messages", `{"stream":"x"}`, "stream has a value of another type or out of range: string"},
		{"/messages", `{"messages":[5]}`, "messages has a value of another type or out of range: number"},
		{"/messages", `{"messages":[{"role":5}]}`, "messages.role has a value"},
		{"/chat/completions", `{"messages":[5]}`, "a message is a number: want an object with role and content"},
		{"/chat/completions", `{"messages":[{"role":5}]}`, `\"role\" of a message is a number: want text`},
		{"/reward /fail", `[]`, "the request is a JSON array: want a JSON object"},
		{"/reward", `{"value":"x"}`, "value has a value"},
		{"/reward", `{"parts":{"a":null}}`, `\"a\" is null: leave it out`},
		{"/reward", `{"parts":null}`, "there is no reward"},
		{"/reward", `{"parts":[1]}`, "parts has a value"},
		{"/chat/completions", `{"min_tokens":"x"}`, "min_tokens has a value"},
		{"/chat/completions", `{"guided_json":1e999}`, "guided_json: 1e999 is not supported"},
		{"/responses", `{"input":[{"content":[5]}]}`, "input.content has a value"},
	} {
		for path := range strings.FieldsSeq(c.paths) {
			status, text := e.ask(path, c.body)
			if status != http.StatusBadRequest || !strings.Contains(text, c.want) || strings.Contains(text, `\n`) || strings.Contains(text, "Go ") {
				t.Errorf("%s %s: %d %s, want %s", path, c.body, status, text, c.want)
			}
		}
	}
}

// In every dialect a tool has a name, and a call has a name and an object of arguments.
func TestBrokenToolsAndCalls(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	bodies := map[string]string{ // the field tools, a call
		"/chat/completions": `{"tools":[%s],"messages":[{"role":"user","content":"'a'"},{"role":"assistant","content":"b","tool_calls":[%s]},` +
			`{"role":"tool","tool_call_id":"c","content":"'d'"}]}`,
		"/responses": `{"tools":[%s],"input":[{"role":"user","content":"'a'"},%s,{"type":"function_call_output","call_id":"c","output":"'d'"}]}`,
		"/messages": `{"tools":[%s],"max_tokens":9,"messages":[{"role":"user","content":"'a'"},{"role":"assistant","content":[%s]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"'d'"}]}]}`,
	}
	inChat := func(function string) string { return `{"id":"c","type":"function","function":{` + function + `}}` }
	inResponses := func(fields string) string { return `{"type":"function_call","call_id":"c",` + fields + `}` }
	inMessages := func(fields string) string { return `{"type":"tool_use","id":"c",` + fields + `}` }
	for _, c := range []struct{ path, tool, call, want string }{
		{"/chat/completions", `{}`, ``, "tools"},
		{"/chat/completions", `{"type":"function","function":{}}`, ``, "tools"},
		{"/chat/completions", `{"type":"function","function":5}`, ``, "tools"},
		{"/chat/completions", `5`, ``, "tools"},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":"3"`), "messages"},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":3`), "messages"},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":"{"`), "messages"},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":"null"`), "messages"},
		{"/chat/completions", ``, inChat(`"arguments":"{}"`), "messages"},
		{"/chat/completions", ``, `5`, "messages"},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":"{}"`), ""},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":{"a":1}`), ""},
		{"/chat/completions", ``, inChat(`"name":"f","arguments":""`), ""},
		{"/chat/completions", ``, inChat(`"name":"f"`), ""},
		{"/responses", `{"type":"function"}`, inResponses(`"name":"f","arguments":"{}"`), "tools"},
		{"/responses", ``, inResponses(`"name":"f","arguments":"3"`), "input"},
		{"/responses", ``, inResponses(`"name":"f","arguments":"null"`), "input"},
		{"/responses", ``, inResponses(`"name":"f"`), "input"},
		{"/responses", ``, inResponses(`"arguments":"{}"`), "input"},
		{"/responses", `{"type":"function","name":"f"}`, inResponses(`"name":"f","arguments":"{}"`), ""},
		{"/messages", `{}`, inMessages(`"name":"f","input":{}`), "tools"},
		{"/messages", ``, inMessages(`"name":"f","input":5`), "messages"},
		{"/messages", ``, inMessages(`"name":"f","input":null`), "messages"},
		{"/messages", ``, inMessages(`"name":"f","input":"{}"`), "messages"},
		{"/messages", ``, inMessages(`"input":{}`), "messages"},
		{"/messages", `{"name":"f"}`, inMessages(`"name":"f"`), ""},
	} {
		status, text := e.ask(c.path, fmt.Sprintf(bodies[c.path], c.tool, c.call))
		if c.want == "" && status != http.StatusOK || c.want != "" && (status != http.StatusBadRequest || !strings.Contains(text, c.want)) {
			t.Errorf("%s with the tool %s and the call %s: %d %s, want an error of %q", c.path, c.tool, c.call, status, text, c.want)
		}
	}
}

// Once the rollout has its tokens, a reply is cut and further calls are refused.
func TestTheTokensOfARolloutAreLimited(t *testing.T) {
	e := open(t, trinity.EndpointOptions{})
	e.model.MaxTokens = 5
	e.reply("user:'one'")
	e.reply("user:'one'", "assistant:one", "user:'two'")
	status, text := e.ask(chat, says("user:'three'"))
	if status != http.StatusTooManyRequests || !strings.Contains(text, "have 5 tokens, and may have 5 (explorer.max_rollout_tokens)") {
		t.Errorf("a further call: %d %s", status, text)
	}
	if _, got := e.recorded(); got != "user:'one'|assistant:[one|]user:'two'|assistant:[t]" {
		t.Errorf("recorded %s", got)
	}
}
