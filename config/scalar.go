package config

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

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
