package toolcall

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
)

// schema is what a tool's schema says about one parameter. The zero schema allows every value.
type schema struct {
	root any  // the schema of all parameters, in which references are looked up
	of   any  // the parameter's own
	kind bool // enum and const allow every value of their values' types
}

// deepest bounds how deep a schema is looked into. References may form a circle.
const deepest = 32

// tool returns the schema of a tool's parameters; ok is false if tools does not have the tool.
func tool(tools json.RawMessage, name string) (of any, ok bool) {
	type function struct {
		Name       string
		Parameters any
	}
	var all []struct {
		function
		Function function
	}
	if json.Unmarshal(tools, &all) != nil {
		return nil, false
	}
	for _, t := range all {
		for _, f := range []function{t.Function, t.function} {
			if f.Name == name && name != "" {
				return f.Parameters, true
			}
		}
	}
	return nil, false
}

// declaredTools returns the names of the tools.
func declaredTools(tools json.RawMessage) map[string]bool {
	var all []struct {
		Name     string
		Function struct{ Name string }
	}
	names := map[string]bool{}
	if json.Unmarshal(tools, &all) != nil {
		return names
	}
	for _, t := range all {
		names[t.Name], names[t.Function.Name] = true, true
	}
	delete(names, "")
	return names
}

// parameters returns the schemas of a tool's parameters; empty if tools does not have it.
func parameters(tools json.RawMessage, name string) map[string]schema {
	root, _ := tool(tools, name)
	all := map[string]schema{}
	schema{root: root, of: root}.properties(all, 0)
	return all
}

// properties adds the schemas of an object's properties, also those of the schemas that it consists of.
func (s schema) properties(all map[string]schema, depth int) {
	o, _ := s.of.(map[string]any)
	if o == nil || depth > deepest {
		return
	}
	own, _ := o["properties"].(map[string]any)
	for name, of := range own {
		if _, has := all[name]; !has {
			all[name] = schema{root: s.root, of: of}
		}
	}
	for _, part := range s.parts(o) {
		part.properties(all, depth+1)
	}
}

// parts returns the schemas of which a schema says allOf, anyOf or oneOf, and the one that it refers to.
func (s schema) parts(o map[string]any) (all []schema) {
	if to, ok := s.referred(o); ok {
		all = append(all, to)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		all = append(all, s.list(o[key])...)
	}
	return all
}

func (s schema) list(of any) (all []schema) {
	list, _ := of.([]any)
	for _, one := range list {
		all = append(all, schema{s.root, one, s.kind})
	}
	return all
}

// referred returns the schema at $ref, a JSON pointer into the root.
func (s schema) referred(o map[string]any) (schema, bool) {
	ref, _ := o["$ref"].(string)
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return schema{}, false
	}
	at := s.root
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		in, _ := at.(map[string]any)
		if at, ok = in[part]; !ok {
			return schema{}, false
		}
	}
	return schema{s.root, at, s.kind}, true
}

// allows reports whether the parameter may have a value that encoding/json has decoded. It looks at
// types and listed values.
func (s schema) allows(v any, depth int) bool {
	if no, ok := s.of.(bool); ok {
		return no
	}
	o, _ := s.of.(map[string]any)
	if o == nil || depth > deepest || v == nil && o["nullable"] == true {
		return true
	}
	is := func(other schema) bool { return other.allows(v, depth+1) }
	if to, ok := s.referred(o); ok && !is(to) || slices.ContainsFunc(s.list(o["allOf"]), func(of schema) bool { return !is(of) }) {
		return false
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list := s.list(o[key]); list != nil && !slices.ContainsFunc(list, is) {
			return false
		}
	}
	if one, ok := o["const"]; ok && !s.equals(one, v) {
		return false
	}
	if list, ok := o["enum"].([]any); ok && !slices.ContainsFunc(list, func(one any) bool { return s.equals(one, v) }) {
		return false
	}
	names, isList := o["type"].([]any)
	if name, ok := o["type"].(string); ok {
		names, isList = []any{name}, true
	}
	return !isList || slices.ContainsFunc(names, func(name any) bool { return isType(name, v) })
}

func (s schema) equals(one, v any) bool {
	return reflect.DeepEqual(one, v) || s.kind && reflect.TypeOf(one) == reflect.TypeOf(v)
}

// typeNames are names of types that tools write in place of JSON's.
var typeNames = map[string]string{"str": "string", "text": "string", "int": "integer", "float": "number", "double": "number",
	"bool": "boolean", "list": "array", "tuple": "array", "dict": "object"}

// isType reports whether a value is of a type. A type that JSON does not have is written as a string.
func isType(name, v any) bool {
	text, _ := name.(string)
	text = strings.ToLower(text)
	if own, ok := typeNames[text]; ok {
		text = own
	}
	switch v := v.(type) {
	case nil:
		return text == "null" || text == "any"
	case bool:
		return text == "boolean" || text == "any"
	case float64:
		return text == "number" || text == "any" || text == "integer" && v == math.Trunc(v)
	case []any:
		return text == "array" || text == "any"
	case map[string]any:
		return text == "object" || text == "any"
	}
	return !slices.Contains([]string{"null", "boolean", "number", "integer", "array", "object"}, text)
}

// value returns an argument that a model wrote as text: a value in JSON or Python if the parameter may
// have it, else a string.
func (s schema) value(text string) json.RawMessage {
	s.kind = true
	allowsText, allowsAll := s.allows(text, 0), true
	for _, one := range []any{nil, true, .5, []any{}, map[string]any{}, text} {
		allowsAll = allowsAll && s.allows(one, 0)
	}
	all := candidates(strings.TrimSpace(text), allowsText, allowsAll)
	for _, s.kind = range []bool{false, true} { // a listed value first
		for _, raw := range all {
			var v any
			if json.Unmarshal(raw, &v) == nil && s.allows(v, 0) {
				return raw
			}
		}
		if s.allows(text, 0) {
			break
		}
	}
	quoted, err := marshal(text)
	if err != nil { // a string always has a JSON form
		panic(err)
	}
	return quoted
}

// candidates returns the values other than strings that a text may stand for. Of a parameter that may
// be text, Python's lists and dicts count only if the schema names their type.
func candidates(text string, allowsText, allowsAll bool) (all []json.RawMessage) {
	if json.Valid([]byte(text)) && text[0] != '"' {
		return append(all, json.RawMessage(text))
	}
	word := text
	if !allowsText {
		word = strings.ToLower(text)
	}
	switch {
	case word == "True" || word == "true":
		return []json.RawMessage{json.RawMessage("true")}
	case word == "False" || word == "false":
		return []json.RawMessage{json.RawMessage("false")}
	case word == "None" || !allowsText && (word == "none" || word == "null"):
		return []json.RawMessage{json.RawMessage("null")}
	}
	if allowsAll || allowsText && !strings.HasPrefix(text, "[") && !strings.HasPrefix(text, "{") {
		return nil
	}
	parsed, err := parsePython(text)
	if err != nil {
		return nil
	}
	v, err := pythonValue(parsed)
	if _, isText := v.(string); err != nil || isText {
		return nil
	}
	if raw, err := marshal(v); err == nil {
		all = append(all, raw)
	}
	return all
}
