package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/trinity-go/trinity"
)

const plain = "plain"

// plainCalls reads calls by a regular expression of the user's. Its group name is the tool's name.
// Its group arguments is a JSON object, or each further group is an argument of its own, as text.
type plainCalls struct{ pattern *regexp.Regexp }

func newPlain(pattern string) (Parser, error) {
	if pattern == "" {
		return nil, fmt.Errorf("tool_call_parser %s needs a tool_call_pattern: a regular expression with the group (?P<name>…)", plain)
	}
	r, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("tool_call_pattern: %w", err)
	}
	names := r.SubexpNames()
	if !slices.Contains(names, "name") {
		return nil, errors.New("tool_call_pattern: no group is called name: write (?P<name>…) around the name of the tool")
	}
	others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" || n == "name" || n == "arguments" })
	if len(others) > 0 && slices.Contains(names, "arguments") {
		return nil, fmt.Errorf("tool_call_pattern: the group arguments has all arguments, and %s is another group", others[0])
	}
	return plainCalls{r}, nil
}

func (p plainCalls) Parse(text string, tools json.RawMessage) (string, []trinity.ToolCall, error) {
	var calls []trinity.ToolCall
	var content strings.Builder
	at := 0
	for _, m := range p.matches(text) {
		content.WriteString(text[at:m[0]])
		at = m[1]
		call, err := p.call(text, m, tools)
		if err != nil {
			return "", nil, err
		}
		calls = append(calls, call)
	}
	content.WriteString(text[at:])
	if mark, _ := p.pattern.LiteralPrefix(); len(mark) > 3 && strings.Contains(content.String(), mark) {
		return "", nil, fmt.Errorf("a call begins with %q and does not fit the tool_call_pattern: %s", mark, brief(text))
	}
	if len(calls) == 0 {
		return text, nil, nil
	}
	return strings.TrimSpace(content.String()), calls, nil
}

// matches returns the indices of the groups of each match. An end that stands in a string of the
// arguments ends no match: the pattern then sees the JSON object of the arguments without its content.
func (p plainCalls) matches(text string) [][]int {
	of := 2 * p.pattern.SubexpIndex("arguments")
	seen, all := text, [][]int(nil)
	for range mostObjects {
		all = p.pattern.FindAllStringSubmatchIndex(seen, -1)
		at := slices.IndexFunc(all, func(m []int) bool {
			return of >= 0 && m[of] >= 0 && strings.HasPrefix(seen[m[of]:], "{") && !json.Valid([]byte(text[m[of]:m[of+1]]))
		})
		if at < 0 {
			return all
		}
		begin := all[at][of]
		value, _, err := firstJSON(text[begin:])
		if err != nil {
			return all
		}
		seen = seen[:begin] + "{" + strings.Repeat("0", len(value)-2) + "}" + seen[begin+len(value):]
	}
	return all
}

// Settled knows where a match may begin if all matches begin with the same characters. The spaces around
// the text of a reply with calls are no content.
func (p plainCalls) Settled(text string) string {
	mark, _ := p.pattern.LiteralPrefix()
	if mark == "" || text != strings.TrimLeftFunc(text, unicode.IsSpace) {
		return ""
	}
	return strings.TrimRightFunc(before(text, mark), unicode.IsSpace)
}

// call returns the call of one match, which is the indices of its groups in text.
func (p plainCalls) call(text string, m []int, tools json.RawMessage) (trinity.ToolCall, error) {
	groups, names := map[string]string{}, p.pattern.SubexpNames()
	for i, name := range names {
		if name != "" && m[2*i] >= 0 {
			groups[name] = text[m[2*i]:m[2*i+1]]
		}
	}
	w := callObject{Name: strings.TrimSpace(groups["name"])}
	if given, ok := groups["arguments"]; ok {
		w.Arguments = json.RawMessage(given)
		return w.call(text[m[0]:m[1]])
	}
	known := parameters(tools, w.Name)
	var all arguments
	for _, name := range names {
		if value, ok := groups[name]; ok && name != "name" {
			if err := all.add(name, known[name].value(value)); err != nil {
				return trinity.ToolCall{}, fmt.Errorf("the call of %s: %w", w.Name, err)
			}
		}
	}
	w.Arguments = all.object()
	return w.call(text[m[0]:m[1]])
}
