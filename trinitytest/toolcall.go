package trinitytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// ToolSchemas are the tools of [ToolCallParser].
var ToolSchemas = json.RawMessage(`[{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {
	"a": {"type": "integer"}, "b": {"type": "number"}, "note": {"type": "string"}, "exact": {"type": "boolean"},
	"terms": {"type": "array"}, "options": {"type": "object"}, "base": {"type": ["integer", "null"]}}}}},
	{"type": "function", "function": {"name": "lookup_word", "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}}]`)

// toolCalls are calls that each format can write.
var toolCalls = [][]trinity.ToolCall{
	{{Name: "add", Arguments: json.RawMessage(`{"a": 1, "b": -2.5}`)}},
	{{Name: "add", Arguments: json.RawMessage(`{"note": "7", "exact": true}`)}},
	{{Name: "add", Arguments: json.RawMessage(`{"terms": [1, [2, "x"]], "options": {"k": null, "l": {"m": false}}, "base": null}`)}},
	{{Name: "lookup_word", Arguments: json.RawMessage(`{"word": "a \"b\" 'c' \\ {d} [e], (f=1); äöü 漢字"}`)}},
	{{Name: "lookup_word", Arguments: json.RawMessage(`{"word": "</tool_call>, </function></parameter>, <|python_end|>, [TOOL_CALLS],` +
		` <|python_tag|>"}`)}},
	{{Name: "lookup_word", Arguments: json.RawMessage(`{"word": "two\nlines\n\nand true"}`)}},
}

// ToolCallParserOptions say how to try a parser.
type ToolCallParserOptions struct {
	// Write returns the calls as a model writes them.
	Write func(calls []trinity.ToolCall) string
	// Single says that a reply of the format has one call at most.
	Single bool
	// Around says that the format allows text before the calls.
	Around bool
}

// ToolCallParser tests what each parser must do: it reads what a model writes in its format, with
// numbers, text and lists as the tools' schemas have them; text without calls stays as it is; a call
// that was cut anywhere is never read as another call; and many goroutines may use it.
func ToolCallParser(t *testing.T, o ToolCallParserOptions, p toolcall.Parser) {
	all := toolCalls
	if !o.Single {
		all = append(all, []trinity.ToolCall{toolCalls[0][0], toolCalls[3][0], toolCalls[0][0]})
	}
	t.Run("reads what the format writes", func(t *testing.T) {
		for _, calls := range all {
			text, around := o.Write(calls), ""
			if o.Around {
				around = "I add them."
			}
			content, got, err := p.Parse(around+text, ToolSchemas)
			if content != around || err != nil || !sameCalls(got, calls) {
				t.Errorf("%q: content %q, calls %s, %v", around+text, content, callText(got), err)
			}
		}
	})
	t.Run("text stays as it is", func(t *testing.T) {
		for _, text := range []string{"", "It is 3.", " [1] says so (see 2)\n", `{"answer": 3}`, `{"name": "Ada"}`, "[1, 2]",
			"I write add(a=1) here.", "a < b > c"} {
			if content, calls, err := p.Parse(text, ToolSchemas); content != text || calls != nil || err != nil {
				t.Errorf("%q: content %q, calls %s, %v", text, content, callText(calls), err)
			}
		}
	})
	t.Run("settled text is content", func(t *testing.T) {
		for _, calls := range all {
			for _, around := range []string{"", "I add\n\nthem <soon> [1] {2}.\n", " so: "} {
				text := around + o.Write(calls)
				content, _, err := p.Parse(text, ToolSchemas)
				if err != nil {
					content = text
				}
				before := ""
				for i := range len(text) + 1 {
					settled := p.Settled(text[:i])
					if !strings.HasPrefix(settled, before) || !strings.HasPrefix(content, settled) || !strings.HasPrefix(text[:i], settled) {
						t.Errorf("%q: settled %q after %q, of the content %q", text[:i], settled, before, content)
					}
					before = settled
				}
			}
		}
	})
	t.Run("a call that was cut is no other call", func(t *testing.T) {
		for _, calls := range all {
			text := o.Write(calls)
			for i := range text {
				_, got, err := p.Parse(text[:i], ToolSchemas)
				if err != nil && got != nil {
					t.Errorf("%q: calls %s beside the error %v", text[:i], callText(got), err)
				}
				if len(got) > len(calls) || !sameCalls(got, calls[:len(got)]) {
					t.Errorf("%q: read as %s", text[:i], callText(got))
				}
			}
		}
	})
	t.Run("many at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for _, calls := range all {
			wg.Go(func() {
				if _, got, err := p.Parse(o.Write(calls), ToolSchemas); err != nil || !sameCalls(got, calls) {
					t.Errorf("calls %s, %v, want %s", callText(got), err, callText(calls))
				}
			})
		}
		wg.Wait()
	})
}

// sameCalls compares names, and arguments by value.
func sameCalls(got, want []trinity.ToolCall) bool {
	if len(got) != len(want) {
		return false
	}
	for i, c := range got {
		var a, b any
		if c.Name != want[i].Name || json.Unmarshal(c.Arguments, &a) != nil || json.Unmarshal(want[i].Arguments, &b) != nil ||
			!reflect.DeepEqual(a, b) {
			return false
		}
	}
	return true
}

func callText(calls []trinity.ToolCall) string {
	var out bytes.Buffer
	for _, c := range calls {
		fmt.Fprintf(&out, "%s%s;", c.Name, c.Arguments)
	}
	return out.String()
}
