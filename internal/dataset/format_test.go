package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// letters is a renderer with one token per byte: "user:text;" and so on, tools first. Training
// learns the assistant's text with its semicolon.
type letters struct{ trinity.Renderer }

func (letters) RenderTraining(
	messages []trinity.Message, tools json.RawMessage, learn []bool,
) (tokens []int32, mask []bool, err error) {
	messages = messages[:lastOf(learn)+1]
	add := func(text string, learnt bool) {
		for _, b := range []byte(text) {
			tokens, mask = append(tokens, int32(b)), append(mask, learnt)
		}
	}
	add(string(tools), false)
	for i, m := range messages {
		if m.Role == "unknown" {
			return nil, nil, errors.New("the template raised an exception")
		}
		add(m.Role+":", false)
		add(m.Reasoning+m.Content+string(m.ToolCalls)+m.ToolCallID+m.Name+";", learn[i])
	}
	return tokens, mask, nil
}

func (letters) Encode(text string) []int32 {
	var tokens []int32
	for _, b := range []byte(text) {
		tokens = append(tokens, int32(b))
	}
	return tokens
}
func (letters) Decode([]int32) string { return "" }
func (letters) StopTokens() []int32   { return nil }

// learnt returns an experience as text, with the learnt tokens in brackets.
func learnt(e *trinity.Experience) string {
	var b strings.Builder
	for i, tok := range e.Tokens {
		if e.Mask[i] && (i == 0 || !e.Mask[i-1]) {
			b.WriteByte('[')
		}
		if !e.Mask[i] && i > 0 && e.Mask[i-1] {
			b.WriteByte(']')
		}
		b.WriteByte(byte(tok))
	}
	if e.Mask[len(e.Mask)-1] {
		b.WriteByte(']')
	}
	return b.String()
}

var keys = trinity.TaskFormat{PromptKey: "prompt", ResponseKey: "response", MessagesKey: "messages", ToolsKey: "tools",
	SystemPromptKey: "sys"}

var templates = trinity.TaskFormat{PromptKey: "prompt", PromptTemplate: "{a} and {b}", ResponseKey: "response", MessagesKey: "messages",
	SystemTemplate: "b is {b}"}

func withSystem(f trinity.TaskFormat, prompt string) trinity.TaskFormat {
	f.SystemPrompt = prompt
	return f
}

func TestFormatter(t *testing.T) {
	const twoTurns = `"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]`
	for _, c := range []struct {
		schema string
		format Format
		row    string
		want   string // what is learnt, or part of the error
	}{
		{"sft", Format{TaskFormat: keys}, `{` + twoTurns + `}`, "user:a;assistant:b;user:c;assistant:[d;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "messages", AllTurns: true}, `{` + twoTurns + `}`,
			"user:a;assistant:[b;]user:c;assistant:[d;]"},
		{"sft", Format{TaskFormat: keys}, `{` + strings.Replace(twoTurns, "]", `, {"role": "user", "content": "thanks"}]`, 1) + `}`,
			"user:a;assistant:b;user:c;assistant:[d;]"},
		{"sft", Format{TaskFormat: withSystem(keys, "S")}, `{` + twoTurns + `}`, "system:S;user:a;assistant:b;user:c;assistant:[d;]"},
		{"sft", Format{TaskFormat: withSystem(keys, "S")}, `{"sys": "own", ` + twoTurns + `}`,
			"system:own;user:a;assistant:b;user:c;assistant:[d;]"},
		{"sft", Format{TaskFormat: withSystem(keys, "S")},
			`{"messages": [{"role": "system", "content": "x"}, {"role": "assistant", "content": "y"}]}`, "system:x;assistant:[y;]"},
		{"sft", Format{TaskFormat: keys}, `{"tools": [{"n": 1}], "messages": "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"p\"}, {\"text\": \"q\"}]}, {\"role\": \"assistant\", \"content\": null, \"reasoning_content\": \"r\", \"tool_calls\": [{\"id\": 7}], \"name\": null}]"}`,
			`[{"n":1}]user:pq;assistant:[r[{"id":7}];]`},
		{"sft", Format{TaskFormat: keys}, `{"messages": "[{\"role\": \"assistant\", \"content\": \"y\"}] [7]"}`, "messages is text, want a list"},
		{"sft", Format{TaskFormat: keys},
			`{"tools": "[{}]", "messages": [{"role": "tool", "content": "x", "tool_call_id": "i", "name": "n"}, {"role": "assistant", "content": "y"}]}`, "[{}]tool:xin;assistant:[y;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "q", "response": 42}`, "user:q;assistant:[42;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "q", "response": 1234567.50}`, "user:q;assistant:[1234567.50;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "q", "response": 1234567.5}`, "user:q;assistant:[1234567.5;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": [{"role": "system", "content": "s"},
			{"role": "user", "content": "q"}], "response": [{"role": "assistant", "content": "r"}]}`, "system:s;user:q;assistant:[r;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": [{"role": "user", "content": "q"}], "response": "r"}`,
			"user:q;assistant:[r;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "[{\"role\": \"user\", \"content\": \"q\"}]", "response": "r"}`,
			"user:q;assistant:[r;]"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"},
			`{"prompt": "[{\"role\": \"user\"}] is what?", "response": "[{\"role\": \"x\"}]"}`,
			`user:[{"role": "user"}] is what?;assistant:[[{"role": "x"}];]`},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "q", "response": {"x": 1}}`, "response holds an object, want text"},
		{"sft", Format{TaskFormat: withSystem(keys, "S"), PromptType: "plaintext"}, `{"prompt": "q", "response": "r"}`,
			"system:S;user:q;assistant:[r;]"},
		{"sft", Format{TaskFormat: templates, PromptType: "plaintext"}, `{"a": "x", "b": 2, "response": "r"}`,
			"system:b is 2;user:x and 2;assistant:[r;]"},
		{"sft", Format{TaskFormat: templates, PromptType: "plaintext"}, `{"a": "x", "response": "r"}`,
			`format.prompt_template: no column "b": the row has a, response`},
		{"sft", Format{TaskFormat: templates}, `{` + twoTurns + `}`, `format.system_template: no column "b": the row has messages`},
		{"cpt", Format{TaskFormat: templates, PromptType: "plaintext"}, `{"a": "x", "b": 2}`, "x[ and 2]"},
		{"sft", Format{TaskFormat: keys, PromptType: "chatpair"},
			`{"prompt": [{"role": "user", "content": "q"}], "response": [{"role": "assistant", "content": "r"}]}`, "user:q;assistant:[r;]"},
		{"cpt", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "text"}`, "t[ext]"},

		{"sft", Format{TaskFormat: keys}, `{"prompt": "q"}`, `no field "messages"`},
		{"sft", Format{TaskFormat: keys}, `{"messages": "q"}`, "messages is text, want a list of messages: set format.prompt_type: plaintext"},
		{"sft", Format{TaskFormat: keys}, `{"messages": 3}`, "messages holds a number, want a list"},
		{"sft", Format{TaskFormat: keys}, `{"messages": []}`, "empty list"},
		{"sft", Format{TaskFormat: keys}, `{"messages": ["q"]}`, "messages[0] is no message: want an object with role"},
		{"sft", Format{TaskFormat: keys}, `{"messages": [{"from": "human", "value": "q"}]}`, "messages[0] is no message"},
		{"sft", Format{TaskFormat: keys}, `{"messages": [{"role": "user", "content": [{"type": "image"}]}]}`,
			`messages[0]: a message has a part of type "image": want text`},
		{"sft", Format{TaskFormat: keys}, `{"messages": [{"role": "user", "content": {}}]}`, `"content" of a message is an object: want text`},
		{"sft", Format{TaskFormat: keys}, `{"messages": [{"role": "user", "content": "q"}]}`, "without a message of the assistant"},
		{"sft", Format{TaskFormat: keys}, `{"messages": [{"role": "assistant", "content": "q", "tool_calls": "{"}]}`, "text that is no JSON"},
		{"sft", Format{TaskFormat: keys}, `{"messages": [{"role": "unknown", "content": "q"}, {"role": "assistant", "content": "r"}]}`,
			"raised an exception"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "q", "response": ["r"]}`, "response holds a list, want text"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "q"}`, `no field "response"`},
		{"sft", Format{TaskFormat: keys, PromptType: "chat"}, ``, `format.prompt_type "chat": want messages, plaintext or chatpair`},
		{"cpt", Format{TaskFormat: keys, PromptType: "messages"}, ``, "set format.prompt_type: plaintext"},
		{"cpt", Format{TaskFormat: keys, PromptType: "plaintext"}, `{"prompt": "t"}`, "has 1 tokens"},
		{"ppo", Format{TaskFormat: keys}, ``, `schema "ppo": there are sft, dpo, kto, cpt and experience`},

		{"cpt", Format{TaskFormat: keys, PromptType: "plaintext", MaxTokens: 4}, `{"prompt": "text"}`, "t[ext]"},
		{"cpt", Format{TaskFormat: keys, PromptType: "plaintext", MaxTokens: 3}, `{"prompt": "text"}`,
			"4 tokens, more than model.max_model_len 3: raise it, remove the row, or set format.truncate: true"},
		{"cpt", Format{TaskFormat: keys, PromptType: "plaintext", MaxTokens: 3, Truncate: true}, `{"prompt": "text"}`, "t[ex]…"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext", MaxTokens: 18, Truncate: true}, `{"prompt": "q", "response": "rst"}`,
			"user:q;assistant:[r]…"},
		{"sft", Format{TaskFormat: keys, PromptType: "plaintext", MaxTokens: 17, Truncate: true}, `{"prompt": "q", "response": "rst"}`,
			"a prompt of 17 tokens leaves nothing to learn of the 17"},
	} {
		got, err := learntOf(c.schema, c.format, c.row)
		if got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %+v of %s: got %s, %v; want %s", c.schema, c.format, c.row, got, err, c.want)
		}
	}
}

// learntOf returns what training learns from a row of JSON. For a preference, + precedes the
// chosen answer and − the rejected one.
func learntOf(schema string, f Format, row string) (string, error) {
	formatter, err := Formatter(schema, f, letters{})
	if err != nil {
		return "", err
	}
	fields, err := decodeRow([]byte(row))
	if err != nil {
		return "", err
	}
	exps, err := formatter.Format(fields)
	if err != nil {
		return "", err
	}
	if len(exps) != formatter.PerRow {
		return "", fmt.Errorf("%d experiences, want %d", len(exps), formatter.PerRow)
	}
	var all []string
	for _, e := range exps {
		if first := slices.Index(e.Mask, true); first != e.PromptLen || e.IsExpert || e.Reward.Valid {
			return "", fmt.Errorf("prompt of %d tokens, first learnt %d, expert %v, reward %v", e.PromptLen, first, e.IsExpert, e.Reward)
		}
		if err := e.Check(); err != nil {
			return "", err
		}
		text := learnt(e)
		if e.Truncated == trinity.ResponseTruncated {
			text += "…"
		}
		if schema == "dpo" || schema == "kto" {
			text = map[bool]string{true: "+ ", false: "- "}[e.Chosen] + text
		} else if e.Chosen {
			return "", errors.New("chosen, though there is nothing to choose from")
		}
		all = append(all, text)
	}
	return strings.Join(all, " "), nil
}
