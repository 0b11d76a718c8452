package trinity

import (
	"errors"
	"fmt"
	"strings"
)

// Validate returns an error if the braces of a template do not match. It names the key.
func (f *TaskFormat) Validate() error {
	for _, t := range [][2]string{{"prompt_template", f.PromptTemplate}, {"system_template", f.SystemTemplate}} {
		if _, err := fill(t[1], func(string) (string, error) { return "", nil }); err != nil {
			return fmt.Errorf("%s: %w", t[0], err)
		}
	}
	return nil
}

// fill replaces each {column} of a template by the column's text. {{ and }} are braces.
func fill(template string, column func(name string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		i := strings.IndexAny(template, "{}")
		if i < 0 {
			out.WriteString(template)
			return out.String(), nil
		}
		out.WriteString(template[:i])
		brace, rest := template[i], template[i+1:]
		if strings.HasPrefix(rest, template[i:i+1]) {
			out.WriteByte(brace)
			template = rest[1:]
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		switch {
		case brace == '}':
			return "", errors.New("a } without its {: write }} for a brace")
		case !closed || strings.Contains(name, "{"):
			return "", errors.New("a { without its }: write {{ for a brace")
		case name == "":
			return "", errors.New("{} names no column: write {column}, or {{}} for braces")
		}
		text, err := column(name)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		template = after
	}
}

// fill returns a template of the task's format with the columns of its row.
func (t *Task) fill(key, template string) (string, error) {
	return fill(template, func(name string) (string, error) {
		v, ok := t.Field(name)
		if !ok {
			return "", fmt.Errorf("format.%s: %w; write {{ and }} for braces", key, t.noColumn(name))
		}
		return textOf(v)
	})
}
