package toolcall_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
	"github.com/trinity-go/trinity/trinitytest"
)

// each joins what write writes for each call.
func each(separator string, write func(c trinity.ToolCall) string) func([]trinity.ToolCall) string {
	return func(calls []trinity.ToolCall) string {
		var all []string
		for _, c := range calls {
			all = append(all, write(c))
		}
		return strings.Join(all, separator)
	}
}

func TestParsersConform(t *testing.T) {
	tested := []string{toolcall.None}
	for _, c := range []struct {
		name, pattern string
		options       trinitytest.ToolCallParserOptions
	}{
		{name: "hermes", options: trinitytest.ToolCallParserOptions{Around: true, Write: each("\n", func(c trinity.ToolCall) string {
			return fmt.Sprintf("\n<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", c.Name, c.Arguments)
		})}},
		{name: "llama3_json", options: trinitytest.ToolCallParserOptions{Write: each("; ", func(c trinity.ToolCall) string {
			return fmt.Sprintf(`{"name": %q, "parameters": %s}`, c.Name, c.Arguments)
		})}},
		{name: "mistral", options: trinitytest.ToolCallParserOptions{Around: true, Write: func(calls []trinity.ToolCall) string {
			list := each(", ", func(c trinity.ToolCall) string {
				return fmt.Sprintf(`{"name": %q, "arguments": %s}`, c.Name, c.Arguments)
			})
			return "[TOOL_CALLS] [" + list(calls) + "]"
		}}},
		{name: "mistral", options: trinitytest.ToolCallParserOptions{Around: true, Write: each("", func(c trinity.ToolCall) string {
			return fmt.Sprintf("[TOOL_CALLS]%s[ARGS]%s", c.Name, c.Arguments)
		})}},
		{name: "pythonic", options: trinitytest.ToolCallParserOptions{Write: func(calls []trinity.ToolCall) string {
			return "[" + each(", ", func(c trinity.ToolCall) string {
				names, values := argumentsOf(c)
				for i, name := range names {
					names[i] += "=" + asPython(values[name])
				}
				return c.Name + "(" + strings.Join(names, ", ") + ")"
			})(calls) + "]"
		}}},
		{name: "qwen3_coder", options: trinitytest.ToolCallParserOptions{Around: true, Write: each("\n", func(c trinity.ToolCall) string {
			var out strings.Builder
			names, values := argumentsOf(c)
			for _, name := range names {
				fmt.Fprintf(&out, "<parameter=%s>\n%s\n</parameter>\n", name, asText(values[name]))
			}
			return fmt.Sprintf("\n<tool_call>\n<function=%s>\n%s</function>\n</tool_call>", c.Name, out.String())
		})}},
		{name: "plain", pattern: `(?s)CALL (?P<name>\w+) (?P<arguments>\{.*?\}) END`,
			options: trinitytest.ToolCallParserOptions{Around: true, Write: each("", func(c trinity.ToolCall) string {
				return fmt.Sprintf(" CALL %s %s END", c.Name, c.Arguments)
			})}},
	} {
		tested = append(tested, c.name)
		t.Run(c.name, func(t *testing.T) {
			_, p, err := toolcall.Open(c.name, c.pattern, "")
			if err != nil {
				t.Fatal(err)
			}
			trinitytest.ToolCallParser(t, c.options, p)
		})
	}
	for _, name := range toolcall.Names() {
		if !slices.Contains(tested, name) {
			t.Errorf("%s: no conformance test", name)
		}
	}
}

// argumentsOf returns a call's arguments by name.
func argumentsOf(c trinity.ToolCall) (names []string, values map[string]json.RawMessage) {
	if err := json.Unmarshal(c.Arguments, &values); err != nil {
		panic(err)
	}
	return slices.Sorted(maps.Keys(values)), values
}

// asPython returns a JSON value as a literal of Python.
func asPython(raw json.RawMessage) string {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(err)
	}
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return map[bool]string{true: "True", false: "False"}[v]
	case []any, map[string]any:
		text := strings.NewReplacer("null", "None", "false", "False").Replace(string(raw))
		return text
	default:
		return string(raw)
	}
}

// asText returns a JSON value as Qwen3-Coder writes it: a string without quotes.
func asText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return text
	}
	return string(raw)
}
