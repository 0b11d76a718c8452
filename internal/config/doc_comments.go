package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/registry"
)

// commentsJSON has the doc comments of the schema, so that one text describes a key to readers of
// the code and to users. `go test ./internal/config -update` writes it.
//
//go:embed comments.json
var commentsJSON []byte

// comments are the doc comments of the schema, by `Type` and `Type.Field`.
var comments = sync.OnceValues(func() (out map[string]string, err error) {
	if err = json.Unmarshal(commentsJSON, &out); err != nil {
		err = fmt.Errorf("config: reading the schema's comments: %w", err)
	}
	return out, err
})

// Explain returns what a key of the schema means, "" if it has no comment.
func (k Key) Explain() (string, error) {
	docs, err := comments()
	if err != nil {
		return "", err
	}
	return k.description(docs), nil
}

// Values returns the values of a key that has a list of them, also of one that names a plug-in of this program.
// The value "" stands for nothing.
func (k Key) Values() []string {
	catalog, ok := registry.Find(k.Plugin)
	if !ok {
		return k.Enum
	}
	var values []string
	if k.Default == "" {
		values = append(values, "")
	}
	if len(catalog.Auto) > 0 {
		values = append(values, "auto")
	}
	return append(values, catalog.Names()...)
}

// description returns the doc tag of a key's field, else its comment, else the comment of the
// section's type without the type's name.
func (k Key) description(comments map[string]string) string {
	if doc := k.field.Tag.Get("doc"); doc != "" {
		return doc
	}
	if c := comments[k.owner.Name()+"."+k.field.Name]; c != "" {
		return c
	}
	below, _ := element(k.field.Type, "")
	if below == nil {
		return ""
	}
	c := strings.TrimPrefix(comments[below.Name()], below.Name()+" ")
	c = strings.TrimPrefix(c, "is ")
	if c == "" {
		return ""
	}
	return strings.ToUpper(c[:1]) + c[1:]
}
