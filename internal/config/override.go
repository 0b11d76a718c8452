package config

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

// override applies `key=value` settings to the tree.
func (s *source) override(settings []string) Errors {
	var errs Errors
	for _, setting := range settings {
		if err := s.overrideOne(setting); err != nil {
			errs = append(errs, *err)
		}
	}
	return errs
}

func (s *source) overrideOne(setting string) *Error {
	fail := func(key, message, hint string) *Error {
		return &Error{File: commandLine, Key: key, Message: message, Hint: hint}
	}
	key, text, ok := strings.Cut(setting, "=")
	if key = strings.TrimSpace(key); !ok || key == "" {
		return fail("", fmt.Sprintf("%q is not an override", setting), "write key=value, such as buffer.batch_size=8")
	}
	value, err := overrideValue(text)
	if err != nil {
		return fail(key, "the value is not valid YAML: "+err.Error(), "quote text with special characters: key='\"text: more\"'")
	}
	value, errs := s.expand(value)
	if len(errs) > 0 {
		return fail(key, errs[0].Message, "")
	}
	path := strings.Split(key, ".")
	at := s.root
	for i, segment := range path {
		here := strings.Join(path[:i], ".")
		if at.Kind == yaml.SequenceNode {
			n, ok := index(segment)
			if !ok || n >= len(at.Content) {
				return fail(key, fmt.Sprintf("%s has no item %q", here, segment), fmt.Sprintf("it has %d items, counted from 0", len(at.Content)))
			}
		}
		if i == len(path)-1 {
			dropArguments(at, segment, value)
			set(at, segment, value)
			return nil
		}
		next := child(at, segment)
		if next == nil || next.ShortTag() == "!!null" {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
			set(at, segment, next)
		}
		if next.Kind == yaml.ScalarNode {
			return fail(key, fmt.Sprintf("%s is a single value", strings.Join(path[:i+1], ".")), "it has no keys below it")
		}
		at = next
	}
	return nil
}

// ofPrograms maps the keys that choose an engine, a launcher or monitors to their arguments.
var ofPrograms = map[string]string{
	"trainer_type": "trainer_args", "engine_type": "engine_args", "launcher": "launcher_args", "monitor_type": "monitor_args",
}

// dropArguments drops the file's arguments of a plug-in in whose place an override puts another one.
func dropArguments(section *yaml.Node, key string, chosen *yaml.Node) {
	before, args := child(section, key), child(section, ofPrograms[key])
	if before != nil && args != nil && args.Kind == yaml.MappingNode && before.Value != chosen.Value {
		args.Content = pairsBut(args.Content, func(_ string, value *yaml.Node) bool { return value.Line > 0 })
	}
}

// set replaces an existing index of a sequence or sets a key of a mapping.
func set(n *yaml.Node, segment string, value *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		i, _ := index(segment)
		n.Content[i] = value
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == segment {
			n.Content[i], n.Content[i+1] = name(segment), value
			return
		}
	}
	n.Content = append(n.Content, name(segment), value)
}

func name(segment string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: segment}
}

// overrideValue reads the right side of a setting. Its nodes have no line number, which marks them
// as not from the file.
func overrideValue(text string) (*yaml.Node, error) {
	empty := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle}
	if strings.TrimSpace(text) == "" {
		return empty, nil
	}
	if strings.HasPrefix(text, "${") { // a flow mapping to YAML, an interpolation to us
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}, nil
	}
	var doc yaml.Node
	if err := yaml.Load([]byte(text), &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return empty, nil
	}
	return clone(doc.Content[0], &yaml.Node{}), nil
}

var (
	plainInt   = regexp.MustCompile(`^[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0o[0-7_]+)$`)
	plainFloat = regexp.MustCompile(`^[-+]?(([0-9][0-9_]*)(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?$`)
)

// typedNode reads text as a value without quotes: a number, a boolean, null or text.
func typedNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: s, Tag: "!!str"}
	switch {
	case s == "" || s == "~" || strings.EqualFold(s, "null"):
		n.Tag = "!!null"
	case strings.EqualFold(s, "true") || strings.EqualFold(s, "false"):
		n.Tag = "!!bool"
	case plainInt.MatchString(s):
		n.Tag = "!!int"
	case strings.EqualFold(strings.TrimLeft(s, "+-"), ".inf"):
		n.Tag = "!!float"
	case plainFloat.MatchString(s) && !leadingZero(s):
		n.Tag = "!!float"
	}
	return n
}

// leadingZero reports whether the digits start with a zero, such as 007, which is a name rather
// than a number.
func leadingZero(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9'
}
