package workflow

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// hermesChat reads calls as Qwen writes them, and notes the messages and the tools that it renders.
type hermesChat struct {
	plain
	messages *[]trinity.Message
	tools    *json.RawMessage
	shows    bool // has a place for tools
}

func (c hermesChat) Render(messages []trinity.Message, tools json.RawMessage, generate bool) ([]int32, error) {
	*c.messages, *c.tools = messages, tools
	tokens, err := c.plain.Render(messages, tools, generate)
	if c.shows {
		tokens = append(c.Encode(string(tools)), tokens...)
	}
	return tokens, err
}

func (c hermesChat) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	_, parser, err := toolcall.Open("hermes", "", "")
	if err != nil {
		return trinity.Message{}, nil, err
	}
	content, calls, err := parser.Parse(c.Decode(tokens), tools)
	return trinity.Message{Role: "assistant", Content: content}, calls, err
}

// needed is a row of a tool-calling dataset.
func needed() *trinity.Task {
	keys := trinity.TaskFormat{PromptKey: "prompt", ResponseKey: "response", ToolsKey: "tools"}
	return &trinity.Task{ID: id.Task, Format: keys, Row: map[string]any{
		"tools": `[{"name": "weather", "description": "the weather", "parameters": {"type": "object", "properties": {}}},
			{"type": "function", "function": {"name": "mail"}}]`,
		"raw_system": "You help Ann.",
		"conversations": []any{
			map[string]any{"from": "human", "value": "Where is Bob?"},
			map[string]any{"from": "function_call", "value": `{"name": "mail", "arguments": {"q": "Bob"}}`},
			map[string]any{"from": "observation", "value": map[string]any{"place": "Rome"}},
			map[string]any{"from": "gpt", "value": "In Rome."},
			map[string]any{"from": "human", "value": "How is the weather there?"},
		},
		"answer": `[{"name": "weather", "arguments": {"city": "Rome", "days": 1}}, {"name": "mail", "arguments": {}}]`,
	}}
}

func TestToolCallsAreComparedWithTheRightOnes(t *testing.T) {
	const (
		think   = "<think>Ask both.</think>\n"
		weather = `<tool_call>{"name": "weather", "arguments": {"days": 1.0, "city": "Rome"}}</tool_call>`
		mail    = `<tool_call>{"name": "mail", "arguments": {}}</tool_call>`
	)
	for _, c := range []struct {
		says                    string
		answer                  any // "" is the row's
		think                   bool
		reason                  string
		value, names, form, acc float64
	}{
		{says: think + weather + mail, think: true, value: 1, names: 1, form: 1, acc: 1},
		{says: think + mail + "\n" + weather, think: true, value: 1, names: 1, form: 1, acc: 1},
		{says: weather + mail, think: true, names: 1, acc: 1},
		{says: weather + mail, value: 1, names: 1, form: 1, acc: 1},
		{says: think + "<think>Again.</think>" + weather + mail, think: true, names: 1, acc: 1},
		{says: "<think> </think>" + weather + mail, think: true, names: 1, acc: 1},
		{says: "So: " + think + weather + mail, think: true, names: 1, acc: 1},
		{says: think + weather + mail, think: true, reason: "length", names: 1, acc: 1},
		{says: think + strings.Replace(weather, "Rome", "Oslo", 1) + mail, think: true, names: 1, form: 1},
		{says: think + weather, think: true, form: 1},
		{says: think + weather + weather + mail, think: true, form: 1},
		{says: think + "It rains.", think: true, form: 1},
		{says: think + `<tool_call>{"name": weather}</tool_call>`, think: true},
		{says: think + "I cannot do that.", think: true, answer: []any{}, value: 1, names: 1, form: 1, acc: 1},
		{says: think + mail, think: true, answer: []any{}, form: 1},
		{says: think + mail, think: true, answer: []any{map[string]any{"name": "mail", "arguments": "{}"}}, value: 1, names: 1, form: 1, acc: 1},
	} {
		task := needed()
		if c.answer != nil {
			task.Row["answer"] = c.answer
		}
		var messages []trinity.Message
		var tools json.RawMessage
		m := model(&parrot{says: c.says, reason: c.reason})
		m.Renderer = hermesChat{messages: &messages, tools: &tools, shows: c.think}
		w := build(t, "toolcall_workflow", map[string]any{"with_think": c.think})
		exps, err := w.Run(t.Context(), rollout(task, m, nil))
		if err != nil || len(exps) != 1 {
			t.Fatalf("%q: %d experiences, %v", c.says, len(exps), err)
		}
		want := map[string]float64{"accuracy": c.acc, "names": c.names, "format": c.form}
		if got := exps[0].Reward; !got.Valid || got.Value != c.value || !maps.Equal(got.Parts, want) {
			t.Errorf("%q: reward %+v, want %g of %v", c.says, got, c.value, want)
		}
		if told := strings.Contains(messages[0].Content, `"name":"weather"`); told == c.think {
			t.Errorf("a template with a place for tools: %v; the system prompt is %q", c.think, messages[0].Content)
		}
		if asks := strings.Contains(messages[0].Content, "<think>"); asks != c.think || !strings.HasPrefix(messages[0].Content, "You help Ann.") {
			t.Errorf("the system prompt is %q", messages[0].Content)
		}
		if !strings.Contains(string(tools), `{"function":{"description":"the weather","name":"weather"`) {
			t.Errorf("the tools are %s", tools)
		}
		roles := ""
		for _, m := range messages {
			roles += m.Role + " "
		}
		if roles != "system user assistant tool assistant user " || messages[3].ToolCallID == "" || messages[3].Content != `{"place":"Rome"}` ||
			!strings.Contains(string(messages[2].ToolCalls), messages[3].ToolCallID) {
			t.Errorf("the chat is %+v", messages)
		}
	}
}

// A reward function that the task names scores in place of the comparison.
func TestToolCallsWithARewardOfTheTask(t *testing.T) {
	scored := &echo{}
	exps, err := build(t, "tool_call_workflow", nil).Run(t.Context(), rollout(needed(), model(&parrot{says: "5"}), scored))
	if err != nil || exps[0].Reward.Value != 1.5 || scored.got.Response != "5" {
		t.Errorf("got %+v, %v", exps, err)
	}
}

func TestRowsOfToolCallsAreChecked(t *testing.T) {
	check := trinity.RequirementsOf(build(t, "tool_call_workflow", nil)).CheckTask
	if err := check(needed()); err != nil {
		t.Fatal(err)
	}
	asked := needed()
	delete(asked.Row, "conversations")
	asked.Row["prompt"], asked.Row["response"] = "How is Rome?", asked.Row["answer"]
	delete(asked.Row, "answer")
	if err := check(asked); err != nil {
		t.Errorf("a row with a question: %v", err)
	}
	turn := func(from, value string) []any { return []any{map[string]any{"from": from, "value": value}} }
	for _, c := range []struct {
		column string
		value  any
		want   string
	}{
		{"tools", nil, `"tools"`},
		{"tools", "[]", `"tools"`},
		{"tools", `[{"description": "nameless"}]`, `"tools"`},
		{"answer", nil, `"answer"`},
		{"answer", "weather", `"answer"`},
		{"answer", `[{"arguments": {}}]`, `"answer"`},
		{"answer", `[{"name": "weather", "arguments": [1]}]`, `"answer"`},
		{"conversations", turn("gpt", "Hello."), "end with"},
		{"conversations", turn("narrator", "Hello."), `"narrator"`},
		{"conversations", turn("function_call", "mail Bob"), "turn 1"},
		{"conversations", []any{}, "end with"},
	} {
		task := needed()
		task.Row[c.column] = c.value
		if err := check(task); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v, want an error with %s", c.column, c.value, err, c.want)
		}
	}
}

func TestValuesOfArgumentsAreCompared(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		equal bool
	}{
		{`{"a": 1, "b": [2]}`, `{"b":[2.0],"a":1e0}`, true},
		{`{"a": 9007199254740993}`, `{"a": 9007199254740992}`, false},
		{`{"a": "1"}`, `{"a": 1}`, false},
		{`{"a": 12345678901234567890}`, `{"a": 12345678901234567891}`, false},
		{`{"a": 9007199254740993}`, `{"a": 9007199254740993.0}`, true},
		{`{"a": [0, 1e400]}`, `{"a": [-0.0, 1e400]}`, true},
		{`{"a": 1e-999999999}`, `{"a": 1e-999999998}`, false},
		{`{"a": 0.5}`, `{"a": 5e-1}`, true},
	} {
		if got := canonical(json.RawMessage(c.a)) == canonical(json.RawMessage(c.b)); got != c.equal {
			t.Errorf("%s and %s: equal is %v", c.a, c.b, got)
		}
	}
}
