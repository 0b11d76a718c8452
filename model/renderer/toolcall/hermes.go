package toolcall

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

func init() { register("hermes", hermes{}, hermesOpen) }

const (
	hermesOpen  = "<tool_call>"
	hermesClose = "</tool_call>"
)

// hermes reads the calls of Hermes 2 Pro, Qwen2.5, Qwen3 and SmolLM3: JSON objects with name and
// arguments, each between <tool_call> and </tool_call>.
type hermes struct{}

func (hermes) Parse(text string) (string, []trinity.ToolCall, error) {
	content, rest, found := strings.Cut(text, hermesOpen)
	var calls []trinity.ToolCall
	for found {
		var inside string
		inside, rest, found = strings.Cut(rest, hermesClose)
		if !found {
			return "", nil, fmt.Errorf("%s without %s: %s", hermesOpen, hermesClose, brief(inside))
		}
		var c struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal([]byte(inside), &c); err != nil {
			return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(inside))
		}
		if c.Name == "" {
			return "", nil, fmt.Errorf(`a call has no "name": %s`, brief(inside))
		}
		arguments, err := object(c.Arguments)
		if err != nil {
			return "", nil, fmt.Errorf("the call of %s: %w", c.Name, err)
		}
		calls = append(calls, trinity.ToolCall{Name: c.Name, Arguments: arguments})
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
