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

var hermesMarks = marks{hermesOpen, hermesClose}

// hermes reads the calls of Hermes 2 Pro, Qwen2.5, Qwen3 and SmolLM3: JSON objects with name and
// arguments, each between <tool_call> and </tool_call>. The marks may stand in strings of the
// arguments. It also reads calls of the tools between <function=name> and </function>.
type hermes struct{}

func (hermes) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	if !strings.Contains(text, hermesOpen) {
		if content, calls, err := functionCalls(text, tools); calls != nil || err != nil {
			return content, calls, err
		}
	}
	return hermesMarks.calls(text, tools, hermesMarks.next, func(rest string) ([]trinity.ToolCall, string, error) {
		call, after, err := hermesCall(rest)
		return []trinity.ToolCall{{Name: call.Name, Arguments: call.Arguments}}, after, err
	})
}

// hermesCall reads a call after <tool_call>, and its </tool_call>.
func hermesCall(text string) (call trinity.ToolCall, rest string, err error) {
	inside, _, ends := strings.Cut(text, hermesClose)
	if !ends {
		return call, "", fmt.Errorf("%s without %s: %s", hermesOpen, hermesClose, brief(inside))
	}
	noObject := fmt.Errorf("a call is no JSON object: %s", brief(inside))
	if rest = trimmed(text); strings.HasPrefix(rest, coderFunction) {
		m := functionTag.FindStringSubmatchIndex(rest)
		if m == nil || m[0] > 0 {
			return call, "", noObject
		}
		call, rest, err = functionCall(rest[m[2]:m[3]], trimmed(rest[m[1]:]))
		if err != nil {
			return call, "", err
		}
	} else {
		var w callObject
		value, after, err := firstJSON(rest)
		if err != nil || json.Unmarshal(value, &w) != nil {
			return call, "", noObject
		}
		if call, err = w.call(string(value)); err != nil {
			return call, "", err
		}
		rest = after
	}
	rest, closed := strings.CutPrefix(trimmed(rest), hermesClose)
	if !closed {
		return call, "", noObject
	}
	return call, rest, nil
}

// Settled implements [Parser]. The line feeds before a call are no content.
func (hermes) Settled(text string) string {
	return strings.TrimRight(before(text, hermesOpen, coderFunction), "\n")
}
