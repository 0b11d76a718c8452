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

// beginsCall matches the beginning of a call. Other JSON objects are answers unless they turn out to be
// calls.
var beginsCall = regexp.MustCompile(`^(\[\s*)?\{\s*["'](` + callKeys + `)["']\s*:`)

// mayBeginCall matches what more text may turn into the beginning of a call.
var mayBeginCall = regexp.MustCompile(`^((\[\s*)?(\{\s*(["']([a-z]*(["']\s*)?)?)?)?)?$`)

// llama3JSON reads the calls of Llama 3.1 to 3.3: the reply is a JSON object with name and parameters,
// in any order, or a list of them, or several with semicolons between them. <|python_tag|> may come
// before. Beside other text, an object that calls one of the tools is a call, too, and so is
// <function=name>{…}</function>.
type llama3JSON struct{}

func (p llama3JSON) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	begin := len(text) - len(trimmed(text))
	for _, at := range objects(text) {
		if tag := strings.Index(text, llamaTag); tag >= 0 && tag < at {
			break
		}
		value, after, err := firstJSON(text[at:])
		if err != nil {
			if at == begin && beginsCall.MatchString(text[at:]) {
				return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(text[at:]))
			}
			if name, broken := isBroken(text[at:], tools); broken {
				return "", nil, fmt.Errorf("the call of %s is no JSON object: %s", name, brief(text[at:]))
			}
			continue
		}
		calls, err := llamaCalls(value, tools, false)
		if err != nil {
			return "", nil, err
		}
		if _, known := tool(tools, firstName(calls)); known || calls != nil && at == begin {
			return p.follow(strings.TrimRightFunc(text[:at], unicode.IsSpace), calls, after, tools)
		}
	}
	content, rest, isTagged := strings.Cut(text, llamaTag)
	if !isTagged {
		if err := foreign(text, tools); err != nil {
			return "", nil, err
		}
		return functionCalls(text, tools)
	}
	value, after, err := firstJSON(rest)
	if err != nil {
		return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(rest))
	}
	calls, err := llamaCalls(value, tools, true)
	if err != nil {
		return "", nil, err
	}
	return p.follow(content, calls, after, tools)
}

// follow reads the calls that come after the first ones.
func (p llama3JSON) follow(content string, calls []trinity.ToolCall, rest string, tools json.RawMessage) (
	string, []trinity.ToolCall, error) {
	for {
		rest = strings.TrimLeft(rest, "; \n")
		rest = strings.TrimLeft(strings.TrimPrefix(rest, llamaTag), "; \n")
		if !strings.HasPrefix(rest, "{") && !beginsCall.MatchString(rest) {
			break
		}
		value, after, err := firstJSON(rest)
		if err != nil {
			return "", nil, fmt.Errorf("a call is no JSON object: %s", brief(rest))
		}
		more, err := llamaCalls(value, tools, true)
		if err != nil {
			return "", nil, err
		}
		calls, rest = append(calls, more...), after
	}
	after, more, err := p.Parse(rest, tools)
	if err != nil {
		return "", nil, err
	}
	if content != "" && after != "" && !strings.HasSuffix(content, " ") {
		content += " "
	}
	return content + after, append(calls, more...), nil
}

func firstName(calls []trinity.ToolCall) string {
	if len(calls) == 0 {
		return ""
	}
	return calls[0].Name
}

// llamaCalls returns the calls in a JSON object or a list of them; nil for an answer in JSON, which
// there is only if not all must be calls.
func llamaCalls(value, tools json.RawMessage, must bool) (calls []trinity.ToolCall, err error) {
	var all []json.RawMessage
	if json.Unmarshal(value, &all) != nil {
		all = []json.RawMessage{value}
	}
	for i, one := range all {
		var w callObject
		if err := json.Unmarshal(one, &w); err != nil {
			if must || i > 0 && calls != nil {
				return nil, fmt.Errorf("a call is no JSON object with name and parameters: %s", brief(string(one)))
			}
			return nil, nil
		}
		_, known := tool(tools, w.Name)
		isCall := w.Name != "" && w.hasArguments()
		switch {
		case w.Description != nil && !must && calls == nil:
			return nil, nil
		case !isCall && !must && calls == nil && !known && w.Type != "function":
			return nil, nil
		case w.Name != "" && !isCall:
			return nil, errors.New(`a call has no "parameters": ` + brief(string(one)))
		}
		call, err := w.call(string(one))
		if err != nil {
			return nil, err
		}
		calls = append(calls, trinity.ToolCall{Name: call.Name, Arguments: call.Arguments})
	}
	if calls == nil && must {
		return nil, errors.New("a list of calls is empty")
	}
	return calls, nil
}

// Settled implements [Parser]. A JSON object at the beginning of a line is settled once it is whole and
// no call.
func (llama3JSON) Settled(text string) string {
	end := len(before(text, llamaTag, coderFunction))
	if trimmed(text) == "" {
		return ""
	}
	for _, at := range objects(text) {
		if at >= end {
			break
		}
		value, _, err := firstJSON(text[at:])
		isOpen := err != nil && (isCut(err) || beginsCall.MatchString(text[at:]) || mayBeginCall.MatchString(text[at:]))
		if isOpen || err == nil && llamaMayCall(value) {
			end = at
			break
		}
	}
	return strings.TrimRightFunc(text[:end], unicode.IsSpace)
}

// llamaMayCall reports whether a JSON value has calls, whatever the tools are.
func llamaMayCall(value json.RawMessage) bool {
	calls, err := llamaCalls(value, nil, false)
	return calls != nil || err != nil
}
