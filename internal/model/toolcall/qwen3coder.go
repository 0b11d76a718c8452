package toolcall

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

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
// of its own. The models often leave <tool_call> out.
type qwen3Coder struct{}

func (qwen3Coder) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	opened := false
	next := func(text string) (content, rest string, found bool) {
		content, rest, opened, found = coderNext(text)
		return content, rest, found
	}
	return hermesMarks.calls(text, tools, next, func(rest string) ([]trinity.ToolCall, string, error) {
		return coderCalls(rest, opened, tools)
	})
}

func (qwen3Coder) Settled(text string) string {
	return strings.TrimRight(before(text, hermesOpen, coderFunction), "\n")
}

// coderNext splits text before the next call: before <tool_call>, which is left out, or before
// <function=name> without it.
func coderNext(text string) (content, rest string, opened, found bool) {
	end := len(text)
	if content, rest, found = strings.Cut(text, hermesOpen); found {
		end, opened = len(content), true
	}
	lastClose := strings.LastIndex(text, coderFunctionClose)
	for at := 0; ; at += len(coderFunction) {
		next := strings.Index(text[at:end], coderFunction)
		if next < 0 {
			return content, rest, opened, found
		}
		if at += next; isBareCall(text, at, lastClose) {
			return text[:at], text[at:], false, true
		}
	}
}

var endsLine = regexp.MustCompile(`^[ \t]*(?:\r?\n|$)`)

// isBareCall reports whether <function= at a place begins a call. Else it is a mention in a sentence: no
// argument and no end follow, and the line goes on.
func isBareCall(text string, at, lastClose int) bool {
	name, rest, named := strings.Cut(text[at+len(coderFunction):], ">")
	if next := strings.TrimSpace(rest); named && !strings.ContainsAny(name, "\n<") &&
		(strings.HasPrefix(next, coderParameter) || strings.HasPrefix(next, coderFunctionClose)) {
		return true
	}
	line := strings.TrimRight(text[:at], " \t") // not the whole line: replies may have many mentions in one
	return (line == "" || strings.HasSuffix(line, "\n")) &&
		(!named || strings.ContainsAny(name, "\n<") || endsLine.MatchString(rest) || lastClose > at)
}

// coderCalls reads the calls after <tool_call>, which opened says that there was, and returns the text
// after </tool_call>. A reply may end without it.
func coderCalls(text string, opened bool, tools json.RawMessage) (calls []trinity.ToolCall, rest string, err error) {
	for rest = trimmed(text); len(calls) == 0 || strings.HasPrefix(rest, coderFunction); {
		call, after, err := coderCall(rest, opened, tools)
		if err != nil {
			return nil, "", err
		}
		calls, text, rest = append(calls, call), after, trimmed(after)
	}
	after, closed := strings.CutPrefix(rest, hermesClose)
	switch {
	case closed:
		return calls, after, nil
	case opened && rest != "":
		return nil, "", fmt.Errorf("%s without %s: %s", hermesOpen, hermesClose, brief(rest))
	}
	return calls, text, nil
}

// coderCall reads the call that text begins with. opened says that <tool_call> stands before it.
func coderCall(text string, opened bool, tools json.RawMessage) (call trinity.ToolCall, rest string, err error) {
	rest, found := strings.CutPrefix(text, coderFunction)
	name, rest, named := strings.Cut(rest, ">")
	name = strings.TrimSpace(name)
	if !found || !named || name == "" || strings.ContainsAny(name, "\n<") {
		return call, "", fmt.Errorf("a call has no %sNAME>: %s", coderFunction, brief(text))
	}
	known := parameters(tools, name)
	var all arguments
	for {
		rest = trimmed(rest)
		if after, closed := strings.CutPrefix(rest, coderFunctionClose); closed {
			return trinity.ToolCall{Name: name, Arguments: all.object()}, after, nil
		}
		argument, after, isArgument := strings.Cut(rest, ">")
		argument, begins := strings.CutPrefix(argument, coderParameter)
		switch {
		case !begins && (rest == "" || strings.HasPrefix(rest, hermesClose)):
			return call, "", fmt.Errorf("the call of %s does not end with %s: %s", name, coderFunctionClose, brief(text))
		case !begins || !isArgument:
			return call, "", fmt.Errorf("the call of %s: beside its arguments stands %s", name, brief(rest))
		}
		end := coderEnd(after, opened, true)
		if end < 0 {
			if end = coderEnd(after, opened, false); end < 0 || opensParameter.MatchString(after[:end]) {
				return call, "", fmt.Errorf("the call of %s: the argument %q does not end with %s", name, argument, coderParameterClose)
			}
		}
		value := strings.TrimSuffix(strings.TrimPrefix(after[:end], "\n"), "\n")
		if err := all.add(argument, known[argument].value(value)); err != nil {
			return call, "", fmt.Errorf("the call of %s: %w", name, err)
		}
		rest = after[end+len(coderParameterClose):]
	}
}

// opensParameter matches an argument that begins on a line of its own.
var opensParameter = regexp.MustCompile(`(?m)^[ \t]*<parameter=[^>\n]*>[ \t]*$`)

// coderEnd returns where the value that text begins with ends, -1 if it does not: at a </parameter> that
// another argument or the end of the call follows. With nested, arguments that the value quotes are
// skipped with their ends.
func coderEnd(text string, opened, nested bool) int {
	depth := 0
	for at := 0; ; {
		end := strings.Index(text[at:], coderParameterClose)
		if end < 0 {
			return -1
		}
		if nested {
			depth += strings.Count(text[at:at+end], coderParameter)
		}
		at += end
		after := at + len(coderParameterClose)
		switch isLast := endsValue(text[after:], opened); {
		case depth == 0 && isLast:
			return at
		case depth > 0:
			depth--
		}
		at = after
	}
}

// endsValue reports whether the text after a </parameter> goes on as a call does. Where a whole call is
// quoted in an argument, another </parameter> comes after its end. After the end of a call that
// <tool_call> opened, </tool_call> or another call comes.
func endsValue(after string, opened bool) bool {
	after = trimmed(after)
	rest, ends := strings.CutPrefix(after, coderFunctionClose)
	rest, closes := strings.CutPrefix(trimmed(rest), hermesClose)
	rest = trimmed(rest)
	switch {
	case closes:
		return !strings.HasPrefix(rest, coderParameterClose)
	case ends && opened:
		return rest == "" || strings.HasPrefix(rest, coderFunction) || strings.HasPrefix(hermesClose, rest)
	case ends:
		return !strings.HasPrefix(rest, coderParameterClose)
	}
	return after == "" || strings.HasPrefix(after, coderParameter)
}

func trimmed(text string) string { return strings.TrimLeftFunc(text, unicode.IsSpace) }
