package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
)

func init() {
	register("llama3_json", llama3JSON{}, func(template string) bool { return strings.Contains(template, `'"parameters": '`) })
}

const llamaTag = "<|python_tag|>"

// beginsCall matches the beginning of a call. Other JSON objects are answers.
var beginsCall = regexp.MustCompile(`^\{\s*"(name|type)"\s*:`)

// mayBeginCall matches what more text may turn into the beginning of a call.
var mayBeginCall = regexp.MustCompile(`^(\{\s*("([a-z]*("\s*)?)?)?)?$`)

// llama3JSON reads the calls of Llama 3.1 to 3.3: the reply is a JSON object with name and parameters,
// or several with semicolons between them. <|python_tag|> may come before.
type llama3JSON struct{}

func (llama3JSON) Parse(text string, _ json.RawMessage) (string, []trinity.ToolCall, error) {
	content, rest, isTagged := strings.Cut(text, llamaTag)
	if !isTagged {
		content, rest = "", text
	}
	rest = strings.TrimSpace(rest)
	if !isTagged && !beginsCall.MatchString(rest) {
		return text, nil, nil
	}
	var calls []trinity.ToolCall
	for {
		value, after, err := firstJSON(rest)
		if err != nil {
			return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(rest))
		}
		var w written
		if err := json.Unmarshal(value, &w); err != nil {
			return "", nil, fmt.Errorf("a call is no JSON object with name and parameters: %s", brief(rest))
		}
		if w.Parameters == nil && w.Arguments == nil {
			if !isTagged && len(calls) == 0 {
				return text, nil, nil // an answer in JSON
			}
			return "", nil, errors.New(`a call has no "parameters": ` + brief(rest))
		}
		call, err := w.call(rest)
		if err != nil {
			return "", nil, err
		}
		calls = append(calls, trinity.ToolCall{Name: call.Name, Arguments: call.Arguments})
		rest = strings.TrimLeft(after, "; \n")
		if !strings.HasPrefix(rest, "{") {
			return content + rest, calls, nil
		}
	}
}

func (llama3JSON) Settled(text string) string {
	if rest := strings.TrimLeftFunc(text, unicode.IsSpace); beginsCall.MatchString(rest) || mayBeginCall.MatchString(rest) {
		return ""
	}
	return before(text, llamaTag)
}
