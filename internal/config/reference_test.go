package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// reference returns the keys of the schema as Markdown: one table per section with type, default
// and meaning. A section that occurs in several places has one table.
func reference() (string, error) {
	docs, err := comments()
	if err != nil {
		return "", err
	}
	var sections []*referenceSection
	byType := map[reflect.Type]*referenceSection{}
	for _, k := range keys() {
		s := byType[k.owner]
		if s == nil {
			s = &referenceSection{}
			byType[k.owner] = s
			sections = append(sections, s)
		}
		s.add(k)
	}
	var b strings.Builder
	for _, s := range sections {
		s.write(&b, docs)
	}
	return strings.TrimRight(b.String(), "\n") + "\n", nil
}

// referenceSection is a type of section with the paths at which it occurs.
type referenceSection struct {
	paths []string
	keys  []Key
}

func (s *referenceSection) add(k Key) {
	path := parent(k.Path)
	if len(s.paths) == 0 || s.paths[len(s.paths)-1] != path {
		s.paths = append(s.paths, path)
	}
	if path == s.paths[0] {
		s.keys = append(s.keys, k)
	}
}

func (s *referenceSection) write(b *strings.Builder, docs map[string]string) {
	title := "Top level"
	if s.paths[0] != "" {
		title = "`" + s.paths[0] + "`"
	}
	fmt.Fprintf(b, "### %s\n\n", title)
	if len(s.paths) > 1 {
		fmt.Fprintf(b, "Also `%s`.\n\n", strings.Join(s.paths[1:], "`, `"))
	}
	b.WriteString("| Key | Type | Default | Meaning |\n|---|---|---|---|\n")
	for _, k := range s.keys {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", lastKey(k.Path), k.Type, k.defaultText(), cell(k.meaning(docs)))
	}
	b.WriteString("\n")
}

// defaultText returns the default as Markdown, "" for a key that stays unset.
func (k Key) defaultText() string {
	optional := k.field.Type.Kind() == reflect.Pointer
	switch {
	case k.Auto != "":
		return "computed"
	case k.Default != "":
		return "`" + k.Default + "`"
	case k.Type == "bool" && !optional:
		return "`false`"
	case k.Type == "int" && !optional:
		return "`0`"
	}
	return ""
}

// meaning returns the description of a key with the values that the key takes.
func (k Key) meaning(docs map[string]string) string {
	parts := []string{k.description(docs)}
	if len(k.Enum) > 0 {
		parts = append(parts, "Values: "+strings.TrimPrefix(strings.Join(k.Enum, ", "), ", ")+".")
	}
	if k.Range != "" {
		parts = append(parts, "Must be "+tags.ParseInterval(k.Range).String()+".")
	}
	if k.Plugin != "" {
		parts = append(parts, "Names: `trinity list "+k.Plugin+"`.")
	}
	if k.Auto != "" {
		parts = append(parts, "It is "+k.Auto+".")
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// cell escapes text for a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
