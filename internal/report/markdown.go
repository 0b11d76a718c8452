package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/rundir"
)

// markdown has the functions that write what a user has named into a card.
var markdown = template.FuncMap{
	"text":   escaped,
	"code":   func(s fmt.Stringer) string { return code(s.String()) },
	"cell":   func(s any) string { return strings.ReplaceAll(code(fmt.Sprint(s)), "|", `\|`) },
	"fenced": func(language, s string) string { fence := fence(s, 4); return fence + language + "\n" + s + fence },
}

// punctuation matches what formats a text. Underscores within a word do not.
var punctuation = regexp.MustCompile("[\\\\`*\\[\\]<>&|~#]|\\b_+|_+\\b|^_+|_+$")

// escape puts a backslash before each byte.
func escape(marks string) string {
	return strings.Join(append([]string{""}, strings.Split(marks, "")...), `\`)
}

// escaped returns a text in one line, without formatting.
func escaped(s string) string { return punctuation.ReplaceAllStringFunc(oneLine(s), escape) }

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' }), " ")
}

// code returns a text as a code span.
func code(s string) string {
	s = oneLine(s)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	fence := fence(s, 1)
	return fence + s + fence
}

// fence returns at least n backticks, and more than the text has in a row.
func fence(s string, n int) string {
	for strings.Contains(s, strings.Repeat("`", n)) {
		n++
	}
	return strings.Repeat("`", n)
}

// public returns the YAML of settings as others may read it: without the directories of absolute
// paths, and without the commands of programs, whose arguments may be private.
func public(settings string) (string, error) {
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(settings), &n); err != nil {
		return "", fmt.Errorf("%s: %w", rundir.SettingsFile, err)
	}
	if n.IsZero() {
		return "", nil
	}
	hide(&n)
	out, err := yaml.Dump(&n)
	return string(out), err
}

// commandKey is the argument of plug-ins that start a program.
const commandKey = "command"

// absolute matches an absolute path, or a URL that has one.
var absolute = regexp.MustCompile(`^([a-z][a-z0-9+.-]*://|)(?:/|[A-Za-z]:[/\\]|\\\\)[^\n]*[/\\]([^/\\\n]+)[/\\]?$`)

// hide hides what is private in a tree.
func hide(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Value = absolute.ReplaceAllString(n.Value, "$1…/$2")
	}
	if n.Kind == yaml.MappingNode {
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if n.Content[i].Value == commandKey {
				n.Content = slices.Delete(n.Content, i, i+2)
			}
		}
	}
	for _, child := range n.Content {
		hide(child)
	}
}
