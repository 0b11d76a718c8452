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
// arguments, each between <tool_call> and </tool_call>.
type hermes struct{}

func (hermes) Parse(text string, _ json.RawMessage) (string, []trinity.ToolCall, error) {
	return tagged(text, func(inside string) ([]trinity.ToolCall, error) {
		var w written
		if err := json.Unmarshal([]byte(inside), &w); err != nil {
			return nil, fmt.Errorf("a call is no JSON object: %s", brief(inside))
		}
		call, err := w.call(inside)
		return []trinity.ToolCall{{Name: call.Name, Arguments: call.Arguments}}, err
	})
}

func (hermes) Settled(text string) string { return beforeTag(text) }

// beforeTag returns the text before the first <tool_call>. The line feeds before a call are no content.
func beforeTag(text string) string { return strings.TrimRight(before(text, hermesOpen), "\n") }

// tagged reads calls between <tool_call> and </tool_call>.
func tagged(text string, read func(inside string) ([]trinity.ToolCall, error)) (string, []trinity.ToolCall, error) {
	content, rest, found := strings.Cut(text, hermesOpen)
	var calls []trinity.ToolCall
	for found {
		var inside string
		inside, rest, found = strings.Cut(rest, hermesClose)
		if !found {
			return "", nil, fmt.Errorf("%s without %s: %s", hermesOpen, hermesClose, brief(inside))
		}
		more, err := read(inside)
		if err != nil {
			return "", nil, err
		}
		calls = append(calls, more...)
		var between string
		between, rest, found = strings.Cut(rest, hermesOpen)
		if strings.TrimSpace(between) != "" {
			content += between
		}
	}
	if len(calls) > 0 {
		content = strings.TrimRight(content, "\n")
	}
	return content, calls, nil
}
