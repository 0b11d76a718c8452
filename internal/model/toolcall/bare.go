package toolcall

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.starlark.net/syntax"

	"github.com/trinity-go/trinity"
)

var (
	// beginsBare matches a call in Python that begins a text, and mayBeginBare what more text may turn into one.
	beginsBare   = regexp.MustCompile(`^\s*([\pL_][\pL\pN_.]*)\(`)
	mayBeginBare = regexp.MustCompile(`^\s*[\pL_][\pL\pN_.]*(?:\(|\z)`)
	// besideText matches a call that begins a line, or a list with one.
	besideText = regexp.MustCompile("(?m)^[ \t`]*(?:[\\pL_][\\pL\\pN_]*[ \t]*=[ \t]*)?([\\pL_][\\pL\\pN_.]*)\\(|" +
		`\[\s*([\pL_][\pL\pN_.]*)\s*\(`)
	afterCall    = regexp.MustCompile("^`?\\.?[ \t]*(?:[;,]|\r?\n|\\z)[\\s;,]*")
	beginsKeyArg = regexp.MustCompile(`^\s*[\pL_][\pL\pN_]*\s*=(?:[^=]|\z)`)
)

// bareCalls reads a reply that is nothing but calls of the tools in Python, without a list around them. name
// is the tool of the first call; "" if the reply is something else.
func bareCalls(text string, tools json.RawMessage) (name string, calls []trinity.ToolCall, err error) {
	declared, of := declaredTools(tools), []string(nil)
	first := ""
	for rest := text; rest != ""; {
		m := beginsBare.FindStringSubmatchIndex(rest)
		if m == nil || !declared[rest[m[2]:m[3]]] {
			return "", nil, nil
		}
		if first == "" {
			first = rest[m[2]:m[3]]
		}
		end := closingBracket(rest[m[3]:])
		if end < 0 && beginsKeyArg.MatchString(rest[m[1]:]) {
			return first, nil, fmt.Errorf("the call of %s does not end: %s", first, brief(rest))
		}
		after := afterCall.FindString(rest[m[3]+max(end, 0):])
		if end < 0 || after == "" && rest[m[3]+end:] != "" {
			return "", nil, nil
		}
		of = append(of, rest[m[2]:m[3]+end])
		rest = rest[m[3]+end+len(after):]
	}
	for _, one := range of {
		more, err := pythonCalls(one)
		if err != nil {
			return first, nil, err
		}
		calls = append(calls, more...)
	}
	return first, calls, nil
}

// callBesideText returns the tool of a call in Python that stands beside other text: on a line of its own, or
// in a list. A mention in a sentence is none, and neither is f(x), whose argument has no value.
func callBesideText(text string, tools json.RawMessage) (name string, found bool) {
	declared, tried := declaredTools(tools), 0
	for _, m := range besideText.FindAllStringSubmatchIndex(text, -1) {
		from, to := max(m[2], m[4]), max(m[3], m[5])
		name := text[from:to]
		if !declared[name] {
			name = name[strings.LastIndexByte(name, '.')+1:] // tools.f
		}
		if !declared[name] {
			continue
		}
		if tried++; tried > mostObjects {
			break
		}
		inside := text[m[1]:]
		end := closingBracket(text[m[1]-1:])
		if end < 0 && beginsKeyArg.MatchString(inside) ||
			end >= 0 && (m[4] >= 0 || afterCall.MatchString(inside[end-1:])) && hasValues(text[from:m[1]-1+end]) {
			return name, true
		}
	}
	return "", false
}

// hasValues reports whether a call in Python has values or named arguments only.
func hasValues(call string) bool {
	e, err := parsePython(call)
	of, ok := e.(*syntax.CallExpr)
	if err != nil || !ok {
		return beginsKeyArg.MatchString(call[strings.IndexByte(call, '(')+1:])
	}
	for _, argument := range of.Args {
		given, named := argument.(*syntax.BinaryExpr)
		if named && given.Op == syntax.EQ {
			continue
		}
		if _, err := pythonValue(argument); err != nil {
			return false
		}
	}
	return true
}

// closingBracket returns the place behind the bracket that closes the first one of text, −1 if none does.
func closingBracket(text string) int {
	depth, quote := 0, ""
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case quote == "" && (c == '"' || c == '\''):
			quote = quoteAt(text[i:])
			n = len(quote)
		case quote != "" && c == '\\':
			n = 2
		case quote != "" && strings.HasPrefix(text[i:], quote):
			n, quote = len(quote), ""
		case quote == "" && strings.IndexByte("([{", c) >= 0:
			depth++
		case quote == "" && strings.IndexByte(")]}", c) >= 0:
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i += n
	}
	return -1
}

// pythonReply returns the tool of the first call if a reply is nothing but calls in Python.
func pythonReply(text string, tools json.RawMessage) (name string, found bool) {
	if list := strings.TrimSpace(text); beginsList.MatchString(list) {
		calls, err := pythonCalls(list)
		if err != nil {
			return "", false
		}
		return calls[0].Name, declaredTools(tools)[calls[0].Name]
	}
	name, calls, err := bareCalls(text, tools)
	return name, calls != nil && err == nil
}

// functionTag begins a call of Llama's: <function=f>{"a": 1}</function>.
var functionTag = regexp.MustCompile(coderFunction + `([^<>\s]+)>`)

// functionCalls reads calls such as <function=f>{"a": 1}</function> of the tools. A reply without one is
// text.
func functionCalls(text string, tools json.RawMessage) (content string, calls []trinity.ToolCall, err error) {
	declared, end := declaredTools(tools), 0
	for _, m := range functionTag.FindAllStringSubmatchIndex(text, -1) {
		name, rest := text[m[2]:m[3]], trimmed(text[m[1]:])
		begins := strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, "[") || strings.HasPrefix(rest, coderParameter)
		if m[0] < end || !declared[name] || !begins {
			continue
		}
		call, after, err := functionCall(name, rest)
		if err != nil {
			return "", nil, err
		}
		if between := text[end:m[0]]; calls == nil || strings.TrimSpace(between) != "" {
			content += between
		}
		if calls == nil {
			content = strings.TrimRight(content, "\n")
		}
		calls, end = append(calls, call), len(text)-len(after)
	}
	if calls == nil {
		return text, nil, nil
	}
	if after := text[end:]; strings.TrimSpace(after) != "" {
		content += after
	}
	return content, calls, nil
}

// functionCall reads the arguments of a call and its </function>.
func functionCall(name, text string) (call trinity.ToolCall, rest string, err error) {
	value, rest, err := firstJSON(text)
	if err != nil || value[0] != '{' {
		return call, "", fmt.Errorf("the call of %s is no JSON object between %s%s> and %s: %s", name, coderFunction, name, coderFunctionClose,
			brief(text))
	}
	rest, closed := strings.CutPrefix(trimmed(rest), coderFunctionClose)
	if !closed {
		return call, "", fmt.Errorf("the call of %s does not end with %s: %s", name, coderFunctionClose, brief(text))
	}
	return trinity.ToolCall{Name: name, Arguments: value}, rest, nil
}
