package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// Info describes one plug-in for people.
type Info struct {
	Kind   string  `json:"kind"`
	Name   string  `json:"name"`
	Doc    string  `json:"doc"`
	Fields []Field `json:"args"`
}

// Field is one argument.
type Field struct {
	Key     string `json:"key"`
	Type    string `json:"type"`
	Default string `json:"default"`
	Doc     string `json:"doc"`

	Range    string   `json:"range,omitempty"` // the allowed numbers, such as [0,1]
	Enum     []string `json:"values,omitempty"`
	Required bool     `json:"required,omitempty"`
	Needs    []string `json:"needs,omitempty"`    // other arguments that it has no effect without
	Excludes []string `json:"excludes,omitempty"` // other arguments that it has no effect beside
}

// Limits says in words which values an argument may have; "" if it may have any of its type.
func (f Field) Limits() string {
	var parts []string
	switch {
	case f.Required && slices.Contains([]string{`""`, "[]", "{}", "null", "0"}, f.Default):
		parts = append(parts, "required")
	case f.Required:
		parts = append(parts, "not empty")
	}
	if f.Range != "" {
		parts = append(parts, tags.ParseInterval(f.Range).String())
	}
	if len(f.Enum) > 0 {
		parts = append(parts, choices(f.Enum))
	}
	if len(f.Needs) > 0 {
		parts = append(parts, "needs "+strings.Join(f.Needs, ", "))
	}
	if len(f.Excludes) > 0 {
		parts = append(parts, "not with "+strings.Join(f.Excludes, ", "))
	}
	return strings.Join(parts, "; ")
}

// Explain describes the named plug-in: its doc, and its arguments with types, defaults and `doc`
// tags.
func (c *Catalog) Explain(name string) (Info, error) {
	e, ok := c.entries[name]
	if !ok {
		return Info{}, c.unknown(name)
	}
	return Info{Kind: c.Kind, Name: name, Doc: e.doc, Fields: fields(reflect.ValueOf(e.new()))}, nil
}

func fields(v reflect.Value) []Field {
	rv := reflect.Indirect(v)
	if rv.Kind() != reflect.Struct {
		return nil
	}
	var out []Field
	for _, f := range tags.Fields(rv.Type()) {
		out = append(out, Field{Key: tags.Key(f), Type: typeName(f.Type), Default: defaultText(rv.FieldByIndex(f.Index)), Doc: f.Tag.Get("doc"),
			Range: f.Tag.Get("range"), Enum: tags.Enum(f), Required: f.Tag.Get("required") != "",
			Needs: texts(conditions(f, "need")), Excludes: texts(conditions(f, "excludes"))})
	}
	return out
}

func fieldKeys(v any) (keys []string) {
	if rv := reflect.Indirect(reflect.ValueOf(v)); rv.Kind() == reflect.Struct {
		for _, f := range tags.Fields(rv.Type()) {
			keys = append(keys, tags.Key(f))
		}
	}
	return keys
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "float"
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map, reflect.Struct:
		return "map"
	}
	return t.Kind().String()
}

// defaultText returns a value as YAML in one line, with the keys of arguments.
func defaultText(v reflect.Value) string {
	var parts []string
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "null"
		}
		return defaultText(v.Elem())
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			parts = append(parts, defaultText(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			parts = append(parts, fmt.Sprintf("%v: %s", it.Key(), defaultText(it.Value())))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Struct:
		for _, f := range fields(v) {
			parts = append(parts, f.Key+": "+f.Default)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// Nearest returns the candidate nearest to name, by edit distance; "" if none is near.
func Nearest(name string, candidates []string) string {
	best, bestDist := "", min(max(2, len(name)/3), len(name)-1)+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(c)); d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// editDistance returns the number of insertions, deletions, substitutions and swaps of neighbours
// (optimal string alignment), in bytes.
func editDistance(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
