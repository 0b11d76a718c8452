package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	for name, doc := range map[string]string{
		"tool_call_workflow": "One turn with tools: the policy reads the chat and the tools of a row, and writes the calls that are needed " +
			"now. Nobody carries them out. They are written as the model's chat template has it. Columns: tools (schemas), the chat " +
			"(conversations with from and value, a list of messages, or a question), raw_system, and the right calls, a list of {name, " +
			"arguments}, in answer or in format.response_key. Reward: 1 if the calls are the right ones, in any order, and the format is " +
			"right, else 0. Parts: accuracy, names (the right tools) and format. A reward function that the task names scores in its place.",
		"toolcall_workflow": "The same as tool_call_workflow.",
	} {
		registry.Workflows.Register(name, doc, func() trinity.Workflow { return &toolCalling{WithThink: true} })
	}
}

// toolCalling asks for calls of tools and compares them with the right ones.
//
// Unlike Trinity-RFT: the calls have the format of the model's chat template and not one list in JSON;
// arguments are compared by value, so 1 is 1.0; no call is right if none is needed.
type toolCalling struct {
	WithThink bool `yaml:"with_think" doc:"ask for one <think> block before the calls; a reply without it has the wrong format"`
}

const toolThinkSystem = "First reason between <think> and </think>. After that, call the tools that the request needs."

// Requires implements [trinity.Requirer].
func (*toolCalling) Requires() trinity.Requirements {
	return trinity.Requirements{Tools: true, CheckTask: func(t *trinity.Task) error {
		if _, err := toolsOfRow(t); err != nil {
			return err
		}
		if _, err := rightCalls(t); err != nil {
			return err
		}
		_, err := conversation(t)
		return err
	}}
}

// Run implements [trinity.Workflow].
func (w *toolCalling) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	tools, err := toolsOfRow(r.Task)
	if err != nil {
		return nil, err
	}
	messages, err := conversation(r.Task)
	if err != nil {
		return nil, err
	}
	if w.WithThink {
		messages = instructed(messages, toolThinkSystem)
	}
	hidden, err := hidesTools(r.Model.Renderer, messages, tools)
	if err != nil {
		return nil, err
	}
	if hidden {
		messages = instructed(messages, "The tools:\n"+string(tools))
	}
	d := r.Model.Dialogue(tools)
	d.Add(messages...)
	reply, err := d.Reply(ctx)
	if err != nil && !errors.Is(err, trinity.ErrNoRoom) {
		return nil, err
	}
	exps := d.Steps()
	e := exps[0]
	switch {
	case e.Truncated == trinity.PromptTruncated:
	case r.Reward != nil:
		err = r.Score(ctx, e, messages...)
		return exps, err
	default:
		e.Reward, err = w.reward(r.Task, reply)
	}
	return exps, err
}

// hidesTools reports whether a chat template has no place for tools.
func hidesTools(r trinity.Renderer, messages []trinity.Message, tools json.RawMessage) (bool, error) {
	with, err := r.Render(messages, tools, true)
	if err != nil {
		return false, err
	}
	without, err := r.Render(messages, nil, true)
	return slices.Equal(with, without), err
}

// instructed adds an instruction to the system prompt of a chat.
func instructed(messages []trinity.Message, text string) []trinity.Message {
	messages = slices.Clone(messages)
	if len(messages) > 0 && messages[0].Role == "system" {
		messages[0].Content = strings.TrimSpace(messages[0].Content + "\n\n" + text)
		return messages
	}
	return slices.Insert(messages, 0, trinity.Message{Role: "system", Content: text})
}

// reward compares the calls of a reply with the right ones.
func (w *toolCalling) reward(t *trinity.Task, reply *trinity.Reply) (trinity.Reward, error) {
	right, err := rightCalls(t)
	if err != nil {
		return trinity.Reward{}, err
	}
	parts := map[string]float64{"accuracy": 0, "names": 0, "format": 0}
	if reply.Malformed == "" {
		if reply.FinishReason != "length" && (!w.WithThink || thinksOnce(reply.Message)) {
			parts["format"] = 1
		}
		parts["accuracy"] = equalCalls(reply.Calls, right, func(c trinity.ToolCall) string { return c.Name + " " + canonical(c.Arguments) })
		parts["names"] = equalCalls(reply.Calls, right, func(c trinity.ToolCall) string { return c.Name })
	}
	return trinity.Reward{Value: parts["accuracy"] * parts["format"], Valid: true, Parts: parts}, nil
}

// thinksOnce reports whether a reply begins with one block of thoughts. The renderer takes it out of
// the content for models whose chat template knows thoughts.
func thinksOnce(m trinity.Message) bool {
	thought, rest := m.Reasoning, m.Content
	if thought == "" {
		before, after, found := strings.Cut(strings.TrimSpace(rest), "</think>")
		inside, opens := strings.CutPrefix(before, "<think>")
		if !found || !opens {
			return false
		}
		thought, rest = inside, after
	}
	return strings.TrimSpace(thought) != "" && !strings.Contains(thought, "<think>") &&
		!strings.Contains(rest, "<think>") && !strings.Contains(rest, "</think>")
}

// equalCalls returns 1 if two lists have the same calls by key, in any order, else 0.
func equalCalls(a, b []trinity.ToolCall, key func(trinity.ToolCall) string) float64 {
	keys := func(calls []trinity.ToolCall) (out []string) {
		for _, c := range calls {
			out = append(out, key(c))
		}
		slices.Sort(out)
		return out
	}
	if slices.Equal(keys(a), keys(b)) {
		return 1
	}
	return 0
}

// canonical returns a JSON value as a text that equal values share.
func canonical(text json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(text)
	}
	out, err := json.Marshal(plainNumbers(v))
	if err != nil {
		return string(text)
	}
	return string(out)
}

// plainNumbers writes the numbers in a JSON value so that equal ones are equal texts: 1.0 and 1e0 as 1,
// however many digits they have.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case json.Number:
		if digits, _, _ := strings.Cut(strings.ToLower(v.String()), "e"); strings.Trim(digits, "-0.") == "" {
			return json.Number("0")
		}
		if f, err := v.Float64(); err != nil || math.Abs(f) < 1e-300 { // its digits might fill the memory
			return v
		}
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			digits, _ := r.FloatPrec()
			return json.Number(r.FloatString(digits))
		}
	}
	return v
}

// column decodes a column that holds JSON, as it is or as text.
func column(t *trinity.Task, key string, into any) error {
	value, ok := t.Field(key)
	if !ok || value == nil {
		return fmt.Errorf("no column %q", key)
	}
	text, isText := value.(string)
	raw := []byte(text)
	if !isText {
		var err error
		if raw, err = json.Marshal(value); err != nil {
			return fmt.Errorf("column %q: %w", key, err)
		}
	}
	var inner string // JSON in a text in JSON
	if json.Unmarshal(raw, &inner) == nil {
		raw = []byte(inner)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("column %q: %w", key, err)
	}
	return nil
}

// toolsOfRow returns the schemas of a row's tools, in the form of OpenAI's API.
func toolsOfRow(t *trinity.Task) (json.RawMessage, error) {
	key := cmp.Or(t.Format.ToolsKey, "tools")
	var tools []map[string]any
	if err := column(t, key, &tools); err != nil {
		return nil, fmt.Errorf("%w: want a list of schemas of tools", err)
	}
	for i, tool := range tools {
		if tool["function"] == nil {
			tools[i] = map[string]any{"type": "function", "function": tool}
		}
	}
	list, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	if _, _, err := toolsOf(list); err != nil || len(tools) == 0 {
		return nil, errors.Join(fmt.Errorf("column %q: want at least one schema of a tool, each with a name", key), err)
	}
	return list, nil
}

// rowCall is a call as rows have it.
type rowCall struct {
	Name      string
	Arguments json.RawMessage
}

// call returns the call. Some rows have the arguments as text.
func (c rowCall) call() (trinity.ToolCall, error) {
	var text string
	if json.Unmarshal(c.Arguments, &text) == nil && text != "" {
		c.Arguments = json.RawMessage(text)
	}
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	var object map[string]any
	if c.Name == "" || json.Unmarshal(c.Arguments, &object) != nil {
		return trinity.ToolCall{}, fmt.Errorf("a call has the name %q and the arguments %s: want a name and an object", c.Name, c.Arguments)
	}
	return trinity.ToolCall{Name: c.Name, Arguments: c.Arguments}, nil
}

// rightCalls returns the right calls of a row.
func rightCalls(t *trinity.Task) (calls []trinity.ToolCall, err error) {
	key := t.Format.ResponseKey
	if v, ok := t.Field(key); !ok || v == nil {
		key = "answer"
	}
	var list []rowCall
	if err := column(t, key, &list); err != nil {
		return nil, fmt.Errorf("%w: want the right calls, a list of {name, arguments}", err)
	}
	for _, c := range list {
		call, err := c.call()
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", key, err)
		}
		calls = append(calls, call)
	}
	return calls, nil
}
