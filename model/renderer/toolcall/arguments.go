package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// arguments is the JSON object of a call's arguments, in the order in which the model wrote them.
type arguments struct {
	names []string
	text  bytes.Buffer
}

// add adds an argument. It returns an error if the call has the argument already.
func (a *arguments) add(name string, value json.RawMessage) error {
	if slices.Contains(a.names, name) {
		return fmt.Errorf("it has the argument %q twice", name)
	}
	if len(a.names) > 0 {
		a.text.WriteString(", ")
	}
	a.names = append(a.names, name)
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	a.text.Write(key)
	a.text.WriteString(": ")
	a.text.Write(value)
	return nil
}

func (a *arguments) object() json.RawMessage {
	return slices.Concat(json.RawMessage("{"), a.text.Bytes(), json.RawMessage("}"))
}

// schema is what a tool's schema says about one parameter.
type schema struct {
	Type  json.RawMessage `json:"type"` // a name or a list of names
	AnyOf []schema        `json:"anyOf"`
}

// types returns the JSON types that the parameter may have; nil if the schema does not say.
func (s schema) types() (all []string) {
	var one string
	switch {
	case json.Unmarshal(s.Type, &one) == nil:
		return []string{one}
	case json.Unmarshal(s.Type, &all) == nil:
		return all
	}
	all = nil
	for _, of := range s.AnyOf {
		all = append(all, of.types()...)
	}
	return all
}

// parameters returns the schemas of a tool's parameters; nil if tools does not have it.
func parameters(tools json.RawMessage, name string) map[string]schema {
	type function struct {
		Name       string
		Parameters struct{ Properties map[string]schema }
	}
	var all []struct {
		function
		Function function
	}
	if json.Unmarshal(tools, &all) != nil {
		return nil
	}
	for _, t := range all {
		for _, f := range []function{t.Function, t.function} {
			if f.Name == name {
				return f.Parameters.Properties
			}
		}
	}
	return nil
}

// value returns an argument that a model wrote as text: a JSON value if its type allows that, else a
// string.
func (s schema) value(text string) json.RawMessage {
	types, trimmed := s.types(), strings.TrimSpace(text)
	if word, ok := map[string]string{"True": "true", "False": "false", "None": "null"}[trimmed]; ok {
		trimmed = word // models know Python's words, too
	}
	if kind := kindOf(trimmed); kind != "" && kind != "string" {
		if len(types) == 0 || slices.Contains(types, kind) || kind == "number" && slices.Contains(types, "integer") {
			return json.RawMessage(trimmed)
		}
	}
	quoted, err := json.Marshal(text)
	if err != nil { // a string always has a JSON form
		panic(err)
	}
	return quoted
}

// kindOf returns the type of a JSON value as schemas call it, "" for text that is no JSON.
func kindOf(text string) string {
	if !json.Valid([]byte(text)) {
		return ""
	}
	switch text[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}
