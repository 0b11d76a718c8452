// Package toolcall reads the calls of tools that a policy writes in its reply. Each file reads one
// format.
package toolcall

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Parser reads the calls in a reply. Many goroutines may use it at once.
type Parser interface {
	// Parse returns the text around the calls, and the calls in order, without ids if the format has
	// none. tools is the JSON array of the schemas that the model saw, or nil; formats whose arguments
	// are text look up the arguments' types there. An error says why a call cannot be read.
	Parse(text string, tools json.RawMessage) (content string, calls []trinity.ToolCall, err error)
	// Settled returns the beginning of a reply's text that the content begins with, whatever the model
	// writes next. It ends before everything that may become a call.
	Settled(text string) string
}

// before returns text up to the first of the marks, or up to what may become one at its end.
func before(text string, marks ...string) string {
	for _, mark := range marks {
		text, _, _ = strings.Cut(text, mark)
	}
	longest := 0
	for _, mark := range marks {
		for n := min(len(mark)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, mark[:n]) {
				longest = n
			}
		}
	}
	return text[:len(text)-longest]
}

// Auto is the name that stands for the format of the chat template.
const Auto = "auto"

// format is one format of calls.
type format struct {
	name  string
	parse Parser
	// writes reports whether a chat template writes calls in this format; at most one format does.
	writes func(template string) bool
}

// formats holds every format that needs no pattern, in order of the names.
var formats []format

func register(name string, p Parser, writes func(template string) bool) {
	formats = append(formats, format{name, p, writes})
	slices.SortFunc(formats, func(a, b format) int { return strings.Compare(a.name, b.name) })
}

// Names returns the names of all formats.
func Names() []string {
	names := []string{plain}
	for _, f := range formats {
		names = append(names, f.name)
	}
	slices.Sort(names)
	return names
}

// Open returns a format by name, with its parser. Auto and "" find the format by the source of a chat
// template; a template of no known format gets None. pattern is the regular expression of the format
// plain, "" for the others.
func Open(name, pattern, template string) (string, Parser, error) {
	isAuto := name == "" || name == Auto
	switch {
	case name == plain, isAuto && pattern != "":
		p, err := newPlain(pattern)
		return plain, p, err
	case pattern != "":
		return "", nil, fmt.Errorf("a tool_call_pattern is for tool_call_parser %s, and that is %q", plain, name)
	case isAuto:
		name, p := of(template)
		return name, p, nil
	}
	for _, f := range formats {
		if f.name == name {
			return name, f.parse, nil
		}
	}
	return "", nil, fmt.Errorf("no tool_call_parser is called %q: want %s or %s", name, Auto, strings.Join(Names(), ", "))
}

// of returns the format of a chat template.
func of(template string) (string, Parser) {
	for _, f := range formats {
		if f.writes(template) {
			return f.name, f.parse
		}
	}
	return None, noCalls{}
}

// callObject is a call as most models write it.
type callObject struct {
	ID          string
	Type        string
	Name        string
	Function    json.RawMessage // the name, or an object with the name and the arguments
	Arguments   json.RawMessage
	Parameters  json.RawMessage // Llama's word for the arguments
	Args        json.RawMessage // words of other formats
	Input       json.RawMessage
	Description json.RawMessage // of a tool, which is no call
}

// UnmarshalJSON reads a call, also one that stands at "function" or has its name there.
func (w *callObject) UnmarshalJSON(raw []byte) error {
	type plain callObject
	if err := json.Unmarshal(raw, (*plain)(w)); err != nil {
		return err
	}
	if w.Name != "" || w.Function == nil || json.Unmarshal(w.Function, &w.Name) == nil {
		return nil
	}
	inner := *w
	if json.Unmarshal(w.Function, (*plain)(&inner)) == nil {
		*w = inner
	}
	return nil
}

// hasArguments reports whether a call has arguments under the names that this package reads.
func (w *callObject) hasArguments() bool { return w.Arguments != nil || w.Parameters != nil }

// call returns the call. text is what the model wrote, for errors.
func (w callObject) call(text string) (trinity.ToolCall, error) {
	if w.Name == "" {
		return trinity.ToolCall{}, fmt.Errorf(`a call has no "name": %s`, brief(text))
	}
	if w.Arguments == nil {
		w.Arguments = w.Parameters
	}
	arguments, err := object(w.Arguments)
	if err != nil {
		return trinity.ToolCall{}, fmt.Errorf("the call of %s: %w", w.Name, err)
	}
	return trinity.ToolCall{ID: w.ID, Name: w.Name, Arguments: arguments}, nil
}

// object returns the arguments of a call as a JSON object. Some models write them as text.
func object(raw json.RawMessage) (json.RawMessage, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("the arguments are no JSON object: %s", brief(string(raw)))
	}
	return raw, nil
}

// firstJSON splits text into the JSON value that it begins with and the rest.
func firstJSON(text string) (value json.RawMessage, rest string, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	if err = d.Decode(&value); err != nil {
		return nil, text, err
	}
	return value, text[d.InputOffset():], nil
}

// isCut reports whether an error of firstJSON says that the text ends before the value does.
func isCut(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) }

// mostObjects bounds the places at which a reply is tried as JSON.
const mostObjects = 16

// beginsObject matches what may begin a JSON object, or a list of them: on a line of its own, or in a
// sentence if its first key is one of a call.
var beginsObject = regexp.MustCompile(`(?m)^\s*(\{|\[\s*(?:\{|\z))|((?:\[\s*)?\{\s*["'](?:` + callKeys + `)["']\s*:|` +
	`(?:\[\s*)?\{\s*(?:["'][a-z]*(?:["']\s*)?)?\z|\[\s*\z)`)

// callKeys are the first keys of calls.
const callKeys = "id|name|type|function|parameters|arguments"

// objects returns where JSON objects, or lists of them, may begin.
func objects(text string) (at []int) {
	for _, m := range beginsObject.FindAllStringSubmatchIndex(text, mostObjects) {
		at = append(at, max(m[2], m[4]))
	}
	return at
}

// brokenCall matches the beginning of a call. Its last group is a placeholder for the arguments, which only
// a text about calls has.
var brokenCall = regexp.MustCompile(`^(?:\[\s*)?\{\s*["'](?:name|function)["']\s*:\s*["']([^"'\s]+)["']\s*,\s*` +
	`["'](?:parameters|arguments)["']\s*:\s*\{\s*(\.\.\.|…|<)?`)

// isBroken reports whether a text begins with a call of a tool that is no JSON, and returns the tool.
func isBroken(text string, tools json.RawMessage) (name string, broken bool) {
	m := brokenCall.FindStringSubmatch(text)
	if m == nil || m[2] != "" || !declaredTools(tools)[m[1]] {
		return "", false
	}
	return m[1], true
}

// unmarked reads a reply without the mark open, which stands before calls: it is text. A call of one of
// the tools in another format is an error, because it would silently be text. close is the mark behind a
// call, "" if there is none.
func unmarked(text string, tools json.RawMessage, open, close string) (string, []trinity.ToolCall, error) {
	for _, at := range objects(text) {
		if name, found := jsonCall(text[at:], tools); found {
			return "", nil, fmt.Errorf("a call of %s has no %s before it: %s", name, open, brief(text[at:]))
		}
	}
	if _, calls, err := functionCalls(text, tools); err != nil {
		return "", nil, err
	} else if calls != nil {
		return "", nil, fmt.Errorf("a call of %s has no %s before it: %s", calls[0].Name, open, brief(text))
	}
	if err := foreign(text, tools); err != nil {
		return "", nil, err
	}
	said, closed := strings.CutSuffix(strings.TrimSpace(text), close)
	said = strings.TrimSpace(said)
	if close != "" && closed && (strings.HasSuffix(said, "}") || strings.HasSuffix(said, ">")) {
		return "", nil, fmt.Errorf("%s without %s: %s", close, open, brief(said))
	}
	return text, nil, nil
}

// marks are those that stand before a call, and behind it, "" if there is none.
type marks struct{ open, close string }

// next splits text at the next call.
func (m marks) next(text string) (content, rest string, found bool) { return strings.Cut(text, m.open) }

// calls reads a reply with calls. next splits a text at the next call, and read returns what begins there,
// with the text after it. A reply without a call is text.
func (m marks) calls(
	text string, tools json.RawMessage, next func(text string) (content, rest string, found bool),
	read func(rest string) (calls []trinity.ToolCall, after string, err error),
) (string, []trinity.ToolCall, error) {
	var calls []trinity.ToolCall
	content, rest, found := next(text)
	for found {
		some, after, err := read(rest)
		if err != nil {
			return "", nil, err
		}
		calls = append(calls, some...)
		var between string
		between, rest, found = next(after)
		if strings.TrimSpace(between) != "" {
			content += between
		}
	}
	if len(calls) == 0 {
		return unmarked(text, tools, m.open, m.close)
	}
	if _, _, err := unmarked(content, tools, m.open, ""); err != nil {
		return "", nil, err
	}
	return strings.TrimRight(content, "\n"), calls, nil
}

// jsonCall returns the tool that a JSON object, or a list of them, calls at the beginning of a text.
func jsonCall(text string, tools json.RawMessage) (name string, found bool) {
	value, _, err := firstJSON(text)
	if err != nil {
		return isBroken(text, tools)
	}
	var all []json.RawMessage
	if json.Unmarshal(value, &all) != nil {
		all = []json.RawMessage{value}
	}
	for _, one := range all {
		var w callObject
		if json.Unmarshal(one, &w) != nil || w.Description != nil || !w.hasArguments() && w.Args == nil && w.Input == nil {
			continue
		}
		if declaredTools(tools)[w.Name] {
			return w.Name, true
		}
	}
	return "", false
}

// foreign returns an error if a reply in a format of JSON has calls in Python, alone or beside text.
func foreign(text string, tools json.RawMessage) error {
	name, found := pythonReply(text, tools)
	if !found {
		name, found = callBesideText(text, tools)
	}
	if found {
		return fmt.Errorf("the call of %s is written as Python, unlike those of the model's format: %s", name, brief(text))
	}
	return nil
}

// brief returns text for an error message: one line of at most 80 characters.
func brief(text string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > 80 {
		return fmt.Sprintf("%q…", string(runes[:79]))
	}
	return fmt.Sprintf("%q", string(runes))
}
