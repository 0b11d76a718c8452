package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
)

// Key is one key of the schema.
type Key struct {
	Path    string // dotted; items of lists are `*`, names of tables `<name>`
	Type    string // bool, int, float, string, names, list, dict, section
	Default string // YAML text; "" is empty or not set
	Enum    []string
	Range   string
	Plugin  string // kind of plug-in that the value names
	ArgsOf  string // the key beside it that names the plug-in whose arguments it holds
	Auto    string // how the key is computed, when it cannot be set

	owner reflect.Type
	field reflect.StructField
}

// fieldOf returns the field of a struct that has a given YAML key.
func fieldOf(t reflect.Type, key string) (reflect.StructField, bool) {
	all := tags.Fields(t)
	i := slices.IndexFunc(all, func(f reflect.StructField) bool { return f.Tag.Get("yaml") == key })
	if i < 0 {
		return reflect.StructField{}, false
	}
	return all[i], true
}

// yamlKeys lists the keys of a struct in order.
func yamlKeys(t reflect.Type) (keys []string) {
	for _, f := range tags.Fields(t) {
		keys = append(keys, f.Tag.Get("yaml"))
	}
	return keys
}

// setDefaults fills a value with the defaults of its fields.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for _, f := range tags.Fields(v.Type()) {
		field := v.FieldByIndex(f.Index)
		setDefaults(field)
		if text := f.Tag.Get("default"); text != "" {
			d := &decoder{source: &source{positions: map[string]Position{}}}
			if d.value(parseTag(text), field, ""); len(d.errs) > 0 {
				panic("config: default of " + f.Name + ": " + d.errs[0].Message) // a bug in a struct tag
			}
		}
	}
}

var parsedTags sync.Map // text of a default tag → *yaml.Node

func parseTag(text string) *yaml.Node {
	if n, ok := parsedTags.Load(text); ok {
		return n.(*yaml.Node)
	}
	n := typedNode(text)
	if strings.ContainsAny(text, "[{") {
		var doc yaml.Node
		if err := yaml.Load([]byte(text), &doc); err != nil {
			panic(fmt.Sprintf("config: default %q: %v", text, err)) // a bug in a struct tag
		}
		n = doc.Content[0]
	}
	parsedTags.Store(text, n)
	return n
}

// Keys lists every key of the schema in the order of the structs. It lists stages without the
// sections that they share with the file.
func Keys() []Key { return slices.Clone(keys()) }

var keys = sync.OnceValue(func() []Key {
	var all []Key
	walkType(reflect.TypeFor[Config](), "", func(k Key) { all = append(all, k) })
	return all
})

func walkType(t reflect.Type, prefix string, visit func(Key)) {
	for _, f := range tags.Fields(t) {
		k := Key{Path: tags.Join(prefix, f.Tag.Get("yaml")), Default: f.Tag.Get("default"), Enum: tags.Enum(f), Range: f.Tag.Get("range"),
			Plugin: f.Tag.Get("plugin"), ArgsOf: f.Tag.Get("args"), Auto: f.Tag.Get("auto"), owner: t, field: f}
		below, path := element(f.Type, k.Path)
		k.Type = keyType(f.Type)
		visit(k)
		if below != nil && t != reflect.TypeFor[Stage]() {
			walkType(below, path, visit)
		}
	}
}

// element returns the struct that a field holds, directly or as items, and the path of its keys. It
// returns nil for plain values.
func element(t reflect.Type, path string) (reflect.Type, string) {
	switch t.Kind() {
	case reflect.Pointer:
		return element(t.Elem(), path)
	case reflect.Struct:
		return t, path
	case reflect.Slice:
		return element(t.Elem(), tags.Join(path, "*"))
	case reflect.Map:
		return element(t.Elem(), tags.Join(path, "<name>"))
	}
	return nil, ""
}

func keyType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return keyType(t.Elem())
	case reflect.Float64:
		return "float"
	case reflect.Struct:
		return "section"
	case reflect.Map:
		return "dict"
	case reflect.Slice:
		if t == reflect.TypeFor[Names]() {
			return "names"
		}
		return "list"
	}
	return t.Kind().String()
}

// defaultAt returns the default of a dotted key that the file leaves out. It returns false if the
// schema has no such key.
func defaultAt(path string) (*yaml.Node, bool) {
	t := reflect.TypeFor[Config]()
	segments := strings.Split(path, ".")
	for i, segment := range segments {
		f, ok := fieldOf(t, segment)
		if !ok {
			return nil, false
		}
		if i == len(segments)-1 {
			return defaultNode(f), f.Tag.Get("auto") == ""
		}
		if t = f.Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return nil, false
		}
	}
	return nil, false
}

func defaultNode(f reflect.StructField) *yaml.Node {
	if text := f.Tag.Get("default"); text != "" {
		return clone(parseTag(text), nil)
	}
	switch f.Type.Kind() {
	case reflect.Bool:
		return typedNode("false")
	case reflect.Int:
		return typedNode("0")
	case reflect.String:
		return stringNode("")
	}
	return typedNode("")
}
