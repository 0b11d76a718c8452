// Package toolcall reads the calls of tools that a policy writes in its reply. Each file reads one
// format.
package toolcall

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Parser reads the calls in a reply. Many goroutines may use it at once.
type Parser interface {
	// Parse returns the text around the calls, and the calls in order, without ids if the format has
	// none. An error says why a call cannot be read.
	Parse(text string) (content string, calls []trinity.ToolCall, err error)
}

// Auto is the name that stands for the format of the chat template.
const Auto = "auto"

// format is one format of calls.
type format struct {
	name  string
	parse Parser
	// marks is text that is in a chat template of the format and in no other.
	marks []string
}

// formats holds every format, in order of the names.
var formats []format

func register(name string, p Parser, marks ...string) {
	formats = append(formats, format{name, p, marks})
	slices.SortFunc(formats, func(a, b format) int { return strings.Compare(a.name, b.name) })
}

// Names returns the names of all formats.
func Names() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Open returns the parser of a format by name. Auto and "" find the format by the source of a chat
// template; a template of no known format gets None.
func Open(name, template string) (Parser, error) {
	if name == "" || name == Auto {
		_, p := Of(template)
		return p, nil
	}
	for _, f := range formats {
		if f.name == name {
			return f.parse, nil
		}
	}
	return nil, fmt.Errorf("no tool_call_parser is called %q: want %s or %s", name, Auto, strings.Join(Names(), ", "))
}

// Of returns the format of a chat template, and its name.
func Of(template string) (string, Parser) {
	for _, f := range formats {
		if slices.ContainsFunc(f.marks, func(mark string) bool { return strings.Contains(template, mark) }) {
			return f.name, f.parse
		}
	}
	return none, noCalls{}
}

// object returns the arguments of a call as a JSON object. Some models write them as text.
func object(raw json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("the arguments are no JSON object: %s", brief(string(raw)))
	}
	return raw, nil
}

// brief returns text for an error message: one line of at most 80 characters.
func brief(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 80 {
		return fmt.Sprintf("%q…", string(runes[:79]))
	}
	return fmt.Sprintf("%q", string(runes))
}
