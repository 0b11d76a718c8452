package config

import (
	"encoding/json"
	"math"
	"reflect"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// JSONSchema returns the JSON schema (draft 2020-12) of a configuration file, for editors. Any
// value may also be an interpolation.
func JSONSchema() ([]byte, error) {
	docs, err := comments()
	if err != nil {
		return nil, err
	}
	b := &schemaBuilder{comments: docs, defs: map[string]any{}}
	b.section(reflect.TypeFor[Config]())
	return json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Trinity configuration",
		"$ref":    "#/$defs/Config",
		"$defs":   b.defs,
	}, "", "  ")
}

type schemaBuilder struct {
	comments map[string]string
	defs     map[string]any
}

// interpolationSchema is a text with `${…}` in it, which may replace any value.
var interpolationSchema = map[string]any{"type": "string", "pattern": `\$\{`}

// section defines a struct and returns a reference to it.
func (b *schemaBuilder) section(t reflect.Type) map[string]any {
	ref := map[string]any{"$ref": "#/$defs/" + t.Name()}
	if _, ok := b.defs[t.Name()]; ok {
		return ref
	}
	properties := map[string]any{}
	def := map[string]any{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties,
		"description": b.comments[t.Name()]}
	b.defs[t.Name()] = def
	var arguments []any
	for _, f := range tags.Fields(t) {
		if f.Tag.Get("auto") != "" {
			continue
		}
		property := b.value(f.Type, f)
		if d := (Key{owner: t, field: f}).description(b.comments); d != "" {
			property["description"] = d
		}
		if text := f.Tag.Get("default"); text != "" {
			property["default"] = plain(parseTag(text))
		}
		// Other programs have other plug-ins, so those of this one are no limit.
		if catalog, ok := registry.Find(f.Tag.Get("plugin")); ok && len(catalog.Names()) > 0 {
			property["examples"] = catalog.Names()
		}
		properties[f.Tag.Get("yaml")] = property
		arguments = append(arguments, argumentsOf(t, f)...)
	}
	if arguments != nil {
		def["allOf"] = arguments
	}
	return ref
}

// argumentsOf describes the arguments that a field may hold, for each plug-in that the key beside it
// may name.
func argumentsOf(section reflect.Type, f reflect.StructField) (all []any) {
	key, name := f.Tag.Get("yaml"), f.Tag.Get("args")
	if name == "" {
		return nil
	}
	of, _ := fieldOf(section, name)
	catalog, ok := registry.Find(of.Tag.Get("plugin"))
	if !ok {
		return nil
	}
	for _, plugin := range catalog.Names() {
		info, err := catalog.Explain(plugin)
		if err != nil || len(info.Fields) == 0 {
			continue
		}
		arguments := map[string]any{}
		for _, arg := range info.Fields {
			arguments[arg.Key] = argument(arg)
		}
		all = append(all, map[string]any{
			"if":   map[string]any{"properties": map[string]any{name: map[string]any{"const": plugin}}, "required": []string{name}},
			"then": map[string]any{"properties": map[string]any{key: map[string]any{"properties": arguments}}},
		})
	}
	return all
}

// argument describes one argument of a plug-in.
func argument(f registry.Field) map[string]any {
	s := map[string]any{}
	switch {
	case f.Type == "int":
		s = orText(ranged(map[string]any{"type": []string{"integer", "null"}}, f.Range))
	case f.Type == "float":
		s = orText(ranged(map[string]any{"type": []string{"number", "null"}}, f.Range))
	case f.Type == "bool":
		s = orText(map[string]any{"type": []string{"boolean", "null"}})
	case f.Enum != nil:
		s = orText(choice(f.Enum))
	}
	s["description"] = f.Doc
	return s
}

// choice allows values and null.
func choice(values []string) map[string]any {
	all := []any{nil}
	for _, v := range values {
		all = append(all, v)
	}
	return map[string]any{"enum": all}
}

func (b *schemaBuilder) value(t reflect.Type, f reflect.StructField) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return b.value(t.Elem(), f)
	case t == reflect.TypeFor[Names]():
		return orText(map[string]any{"type": []string{"string", "array", "null"}, "items": map[string]any{"type": "string"}})
	}
	switch t.Kind() {
	case reflect.Struct:
		return orText(b.section(t))
	case reflect.Slice:
		return orText(map[string]any{"type": []string{"array", "null"}, "items": b.value(t.Elem(), f)})
	case reflect.Map:
		s := map[string]any{"type": []string{"object", "null"}}
		if t.Elem().Kind() == reflect.Struct {
			s["additionalProperties"] = b.value(t.Elem(), reflect.StructField{})
		}
		return orText(s)
	case reflect.Bool:
		return orText(map[string]any{"type": []string{"boolean", "null"}})
	case reflect.Int:
		return orText(ranged(map[string]any{"type": []string{"integer", "null"}}, f.Tag.Get("range")))
	case reflect.Float64:
		return orText(ranged(map[string]any{"type": []string{"number", "null"}}, f.Tag.Get("range")))
	}
	if enum := tags.Enum(f); enum != nil {
		return orText(choice(enum))
	}
	return map[string]any{"type": []string{"string", "number", "boolean", "null"}}
}

func orText(s map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{s, interpolationSchema}}
}

func ranged(s map[string]any, text string) map[string]any {
	if text == "" {
		return s
	}
	r := tags.ParseInterval(text)
	low, high := "exclusiveMinimum", "exclusiveMaximum"
	if r.WithLow {
		low = "minimum"
	}
	if r.WithHigh {
		high = "maximum"
	}
	if !math.IsInf(r.Low, 0) {
		s[low] = r.Low
	}
	if !math.IsInf(r.High, 0) {
		s[high] = r.High
	}
	return s
}

// plain returns a default as a JSON value.
func plain(n *yaml.Node) any {
	d := &decoder{source: &source{positions: map[string]Position{}}}
	return d.free(n, "")
}
