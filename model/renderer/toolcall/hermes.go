package toolcall

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

func init() {
	register("hermes", hermes{}, func(template string) bool {
		return strings.Contains(template, hermesOpen) && !strings.Contains(template, coderParameter) &&
			!strings.Contains(template, "<arg_key>") // of GLM 4.5
	})
}

const (
	hermesOpen  = "<tool_call>"
	hermesClose = "</tool_call>"
)

// hermes reads the calls of Hermes 2 Pro, Qwen2.5, Qwen3 and SmolLM3: JSON objects with name and
// arguments, each between <tool_call> and </tool_call>. The marks may stand in strings of the
// arguments.
type hermes struct{}

func (hermes) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	content, rest, found := strings.Cut(text, hermesOpen)
	if !found {
		return unmarked(text, tools, hermesOpen, hermesClose)
	}
	var calls []trinity.ToolCall
	for found {
		value, after, err := firstJSON(rest)
		after, closed := strings.CutPrefix(trimmed(after), hermesClose)
		if inside, _, ends := strings.Cut(rest, hermesClose); !ends {
			return "", nil, fmt.Errorf("%s without %s: %s", hermesOpen, hermesClose, brief(inside))
		} else if err != nil || !closed {
			return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(inside))
		}
		var w written
		if err := json.Unmarshal(value, &w); err != nil {
			return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(string(value)))
		}
		call, err := w.call(string(value))
		if err != nil {
			return "", nil, err
		}
		calls = append(calls, trinity.ToolCall{Name: call.Name, Arguments: call.Arguments})
		var between string
		between, rest, found = strings.Cut(after, hermesOpen)
		if strings.TrimSpace(between) != "" {
			content += between
		}
	}
	return strings.TrimRight(content, "\n"), calls, nil
}

// Settled implements [Parser]. The line feeds before a call are no content.
func (hermes) Settled(text string) string { return strings.TrimRight(before(text, hermesOpen), "\n") }
