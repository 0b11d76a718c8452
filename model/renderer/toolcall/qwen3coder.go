package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
)

func init() {
	register("qwen3_coder", qwen3Coder{}, func(template string) bool { return strings.Contains(template, coderParameter) })
}

const (
	coderFunction       = "<function="
	coderFunctionClose  = "</function>"
	coderParameter      = "<parameter="
	coderParameterClose = "</parameter>"
)

// qwen3Coder reads the calls of Qwen3-Coder and Qwen3.5: <function=name> between <tool_call> and
// </tool_call>, and in it each argument as text between <parameter=name> and </parameter>, on lines
// of its own.
type qwen3Coder struct{}

func (qwen3Coder) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	return tagged(text, func(inside string) ([]trinity.ToolCall, error) {
		before, rest, found := strings.Cut(inside, coderFunction)
		name, rest, named := strings.Cut(rest, ">")
		name = strings.TrimSpace(name)
		if !found || !named || name == "" || strings.TrimSpace(before) != "" {
			return nil, fmt.Errorf("a call has no %sNAME>: %s", coderFunction, brief(inside))
		}
		rest, after, closed := cutLast(rest, coderFunctionClose)
		if !closed || strings.TrimSpace(after) != "" {
			return nil, fmt.Errorf("the call of %s does not end with %s: %s", name, coderFunctionClose, brief(inside))
		}
		given, err := coderArguments(rest, parameters(tools, name))
		if err != nil {
			return nil, fmt.Errorf("the call of %s: %w", name, err)
		}
		return []trinity.ToolCall{{Name: name, Arguments: given}}, nil
	})
}

func (qwen3Coder) Settled(text string) string { return beforeTag(text) }

// cutLast is strings.Cut at the last separator.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// coderArguments reads the arguments of a call.
func coderArguments(text string, known map[string]schema) (json.RawMessage, error) {
	var all arguments
	for strings.TrimSpace(text) != "" {
		before, rest, found := strings.Cut(text, coderParameter)
		name, rest, named := strings.Cut(rest, ">")
		if !found || !named || strings.TrimSpace(before) != "" {
			return nil, fmt.Errorf("beside its arguments stands %s", brief(text))
		}
		value, rest, closed := strings.Cut(rest, coderParameterClose)
		if !closed {
			return nil, fmt.Errorf("the argument %q does not end with %s", name, coderParameterClose)
		}
		if strings.Contains(value, coderParameter) {
			return nil, errors.New("an argument begins before the one before it ends")
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		if err := all.add(name, known[name].value(value)); err != nil {
			return nil, err
		}
		text = rest
	}
	return all.object(), nil
}
