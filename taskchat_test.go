package trinity

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// rowOf decodes a row as package dataset does: numbers that a float64 does not write alike stay as they are.
func rowOf(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var row map[string]any
	if err := d.Decode(&row); err != nil {
		t.Fatal(err)
	}
	return row
}

func written(messages []Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Role+":"+m.Content+string(m.ToolCalls)+m.ToolCallID)
	}
	return strings.Join(all, " | ")
}

func TestChatsOfRows(t *testing.T) {
	keys := TaskFormat{PromptKey: "prompt", MessagesKey: "messages", SystemPromptKey: "sys", SystemPrompt: "S", ToolsKey: "tools"}
	template := keys
	template.PromptTemplate = "{prompt}!"
	for _, c := range []struct {
		name      string
		format    TaskFormat
		row, want string // want is the chat, or what the error says
		fails     bool
	}{
		{"verl", keys, `{"prompt": [{"role": "system", "content": "B"}, {"role": "user", "content": "q"}]}`, "system:B | user:q", false},
		{"system prompt of the taskset", keys, `{"prompt": [{"role": "user", "content": "q"}]}`, "system:S | user:q", false},
		{"system prompt of the row", keys, `{"sys": "R", "prompt": [{"role": "user", "content": "q"}]}`, "system:R | user:q", false},
		{"earlier turns", keys,
			`{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}]}`,
			"system:S | user:q | assistant:a | user:r", false},
		{"columnar file", keys,
			`{"prompt": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1"}], "name": null, "tool_call_id": null},
			{"role": "tool", "content": "4", "tool_calls": null, "name": null, "tool_call_id": "1"}]}`,
			`system:S | assistant:[{"id":"1"}] | tool:41`, false},
		{"text of JSON", keys, `{"prompt": "[{\"role\": \"user\", \"content\": \"q\"}]"}`, "system:S | user:q", false},
		{"text after JSON", keys, `{"prompt": "[{\"role\": \"user\", \"content\": \"q\"}]]"}`,
			`system:S | user:[{"role": "user", "content": "q"}]]`, false},
		{"calls as text of JSON", keys,
			`{"prompt": [{"role": "assistant", "content": null, "tool_calls": "[{\"id\": \"1\"}]"}, {"role": "tool", "content": "4"}]}`,
			`system:S | assistant:[{"id": "1"}] | tool:4`, false},
		{"texts in place of parts", keys, `{"prompt": [{"role": "user", "content": ["q"]}]}`,
			`prompt[0]: a part of the content is no object with the keys "type" and "text"`, true},
		{"parts", keys, `{"prompt": [{"role": "user", "content": [{"type": "text", "text": "q"}]}]}`, "system:S | user:q", false},
		{"messages key", keys, `{"messages": [{"role": "user", "content": "q"}]}`, "system:S | user:q", false},
		{"messages key, no prompt", keys, `{"prompt": null, "messages": [{"role": "user", "content": "q"}]}`, "system:S | user:q", false},
		{"prompt first", keys, `{"prompt": "p", "messages": [{"role": "user", "content": "q"}]}`, "system:S | user:p", false},
		{"a text that begins as JSON", keys, `{"prompt": "[1, 2] has which sum?"}`, "system:S | user:[1, 2] has which sum?", false},
		{"a list in a text", keys, `{"prompt": "[1, 2]"}`, "system:S | user:[1, 2]", false},
		{"a number", keys, `{"prompt": 1234567.50}`, "system:S | user:1234567.50", false},
		{"template", template, `{"prompt": [{"role": "user", "content": "<q>"}]}`,
			`system:S | user:[{"content":"<q>","role":"user"}]!`, false},
		{"reply at the end", keys, `{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}`,
			`format.prompt_key: column "prompt" ends with a reply of the assistant`, true},
		{"list of texts", keys, `{"prompt": ["q", "r"]}`,
			`format.prompt_key: column "prompt" holds a list, want a text or a list of messages`, true},
		{"empty list", keys, `{"prompt": []}`, `column "prompt" holds a list`, true},
		{"object", keys, `{"prompt": {"text": "q"}}`, `column "prompt" holds an object`, true},
		{"no role", keys, `{"prompt": [{"from": "human", "value": "q"}]}`, `column "prompt" holds a list, want`, true},
		{"image", keys, `{"prompt": [{"role": "user", "content": [{"type": "image"}]}]}`,
			`format.prompt_key: prompt[0]: a message has a part of type "image"`, true},
		{"ShareGPT's role", keys, `{"prompt": [{"role": "human", "content": "q"}]}`,
			`format.prompt_key: prompt[0]: role "human" is another format's name of "user": rename it`, true},
		{"role in capitals", keys, `{"prompt": [{"role": "system", "content": "s"}, {"role": "User", "content": "q"}]}`,
			`prompt[1]: role "User" is another format's name of "user"`, true},
		{"a template's own role", keys, `{"prompt": [{"role": "critic", "content": "q"}]}`, "system:S | critic:q", false},
		{"Python's notation", keys, `{"prompt": "[{'role': 'user', 'content': 'q'}]"}`,
			`format.prompt_key: column "prompt" has a list of messages in Python's notation`, true},
		{"null of the user", keys, `{"prompt": [{"role": "user", "content": null}]}`, `prompt[0]: a message of the user has no content`, true},
		{"null of the assistant", keys, `{"prompt": [{"role": "assistant", "content": null}]}`,
			`prompt[0]: a message of the assistant has no content`, true},
		{"thoughts alone", keys, `{"prompt": [{"role": "assistant", "content": null, "reasoning": "r"}, {"role": "user", "content": "u"}]}`,
			"system:S | assistant: | user:u", false},
		{"no content", keys, `{"prompt": [{"role": "user"}]}`, `prompt[0]: a message of the user has no content`, true},
		{"no parts", keys, `{"prompt": [{"role": "user", "content": []}]}`, `prompt[0]: a message of the user has no content`, true},
		{"a text among messages", keys, `{"prompt": [{"role": "user", "content": "q"}, "r"]}`,
			`prompt[1]: a message is an object with role and content, got a text`, true},
		{"null", keys, `{"prompt": null}`, `format.prompt_key: column "prompt" is null`, true},
		{"absent", keys, `{"q": 1}`, `format.prompt_key: no column "prompt": the row has q`, true},
	} {
		task := &Task{Row: rowOf(t, c.row), Format: c.format}
		got, err := task.Messages("given")
		if c.fails && (err == nil || !strings.Contains(err.Error(), c.want)) || !c.fails && (err != nil || written(got) != c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.name, written(got), err, c.want)
		}
	}
}

// A workflow that asks a question in words of its own refuses a chat instead of dropping its turns.
func TestQuestionOfAChat(t *testing.T) {
	for row, want := range map[string]string{
		`{"prompt": [{"role": "user", "content": "q"}]}`: "q",
		`{"prompt": "q"}`: "q",
		`{"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]}`:       "more than one message",
		`{"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "last"}]}`: "ends with a reply",
	} {
		got, err := (&Task{Row: rowOf(t, row), Format: TaskFormat{PromptKey: "prompt"}}).Prompt()
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && got != want {
			t.Errorf("%s: got %q, %v; want %q", row, got, err, want)
		}
	}
}

func TestToolsOfRows(t *testing.T) {
	for row, want := range map[string]string{
		`{}`: "", `{"tools": null}`: "", `{"tools": ""}`: "", `{"tools": []}`: "",
		`{"tools": [{"name": "<f>", "least": 0.0}]}`: `[{"least":0.0,"name":"<f>"}]`,
		`{"tools": "[{\"name\": \"f\"}]"}`:           `[{"name": "f"}]`,
		`{"tools": ["hammer"]}`:                      "holds a list, want", `{"tools": "hammer"}`: "holds a text, want",
		`{"tools": {"a": 1}}`: "holds an object, want",
	} {
		got, err := (&Task{Row: rowOf(t, row), Format: TaskFormat{ToolsKey: "tools"}}).Tools()
		if err != nil && (want == "" || !strings.Contains(err.Error(), want)) || err == nil && string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", row, got, err, want)
		}
	}
}

// No value of a row becomes text in Go's syntax, and no digit of a file is lost.
func TestValuesAsText(t *testing.T) {
	for value, want := range map[string]string{
		`"2"`: "2", `2`: "2", `true`: "true", `1234567.5`: "1234567.5", `100000000000000000000`: "100000000000000000000", `3.0`: "3.0",
		`1e-7`: "1e-7", `18446744073709551615`: "18446744073709551615",
		`12345678901234567890.123456789`: "12345678901234567890.123456789",
		`["2"]`:                          `["2"]`, `["1", 2.50, null]`: `["1",2.50,null]`,
		`{"x": 1, "a": "<&>é"}`: `{"a":"<&>é","x":1}`, `[]`: "[]",
	} {
		task := &Task{Row: rowOf(t, `{"v": `+value+`, "reward_model": {"ground_truth": `+value+`}}`),
			Format: TaskFormat{ResponseKey: "reward_model.ground_truth"}}
		if got, err := task.Text("v"); err != nil || got != want || task.Truth() != want {
			t.Errorf("%s: got %q, %v and %q, want %q", value, got, err, task.Truth(), want)
		}
	}
	for _, v := range []any{1e20, 1234567.5, int64(7), 3} { // as other readers give numbers
		if got, err := (&Task{Row: map[string]any{"v": v}}).Text("v"); err != nil || strings.Contains(got, "e") {
			t.Errorf("%v: got %q, %v", v, got, err)
		}
	}
}

func TestTruths(t *testing.T) {
	for value, want := range map[string][]string{
		`"2"`: {"2"}, `2.50`: {"2.50"}, `["2"]`: {"2"}, `["1", 2.50, true]`: {"1", "2.50", "true"}, `null`: nil,
		`[{"role": "assistant", "content": "7"}]`: {"7"},
	} {
		task := &Task{Row: rowOf(t, `{"a": `+value+`}`), Format: TaskFormat{ResponseKey: "a"}}
		if got, err := task.Truths(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %v; want %q", value, got, err, want)
		}
	}
	for value, want := range map[string]string{
		`[]`: `the list in column "a" is empty`, `{"y": 1, "x": 2}`: `an object with the keys x, y: name one of them, such as "a.x"`,
		`["1", null]`: "holds null, want texts or numbers", `[["1"]]`: "holds a list, want",
		`[{"x": 1}]`: "holds an object, want", `{}`: "an empty object",
		`[{"role": "user", "content": "q"}, {"role": "assistant", "content": "7"}]`: "holds an object, want",
	} {
		task := &Task{Row: rowOf(t, `{"a": `+value+`}`), Format: TaskFormat{ResponseKey: "a"}}
		if got, err := task.Truths(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want an error with %q", value, got, err, want)
		}
	}
}

// Plug-ins read whole numbers of a row into an int, as pandas writes them in a column with gaps.
func TestDecodeReadsWholeNumbers(t *testing.T) {
	task := &Task{Row: rowOf(t, `{"v": {"seed": 3.0, "sizes": [1e1, -2.0], "big": 1e300, "share": 0.50}}`)}
	var v struct {
		Seed  int
		Sizes []int
		Big   float64
		Share float64
	}
	if _, err := task.Decode("v", &v); err != nil || v.Seed != 3 || !reflect.DeepEqual(v.Sizes, []int{10,
		-2}) || v.Big != 1e300 || v.Share != 0.5 {
		t.Errorf("got %+v, %v", v, err)
	}
	if got, _ := task.Text("v.seed"); got != "3.0" {
		t.Errorf("the row has changed: %q", got)
	}
}

func FuzzChats(f *testing.F) {
	f.Add(`{"prompt": [{"role": "user", "content": "q"}]}`)
	f.Add(`{"prompt": "[{\"role\": \"user\"}]", "tools": "[]"}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var row map[string]any
		if d.Decode(&row) != nil {
			return
		}
		task := &Task{Row: row, Format: TaskFormat{PromptKey: "prompt", MessagesKey: "messages", ResponseKey: "answer",
			ToolsKey: "tools"}}
		messages, err := task.Messages("s")
		if err == nil && (messages[0].Role != "system" || messages[len(messages)-1].Role == "assistant") {
			t.Errorf("%s: %v", text, messages)
		}
		if _, err := task.Truths(); err != nil && !strings.Contains(err.Error(), "format.response_key") {
			t.Error(err)
		}
		_, _ = task.Tools()
	})
}
