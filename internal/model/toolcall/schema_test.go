package toolcall

import (
	"encoding/json"
	"strings"
	"testing"
)

// A text becomes a value only if the schema allows the value.
func TestArgumentsHaveTheirTypes(t *testing.T) {
	const root = `"$defs": {"S": {"type": "string"}, "A": {"allOf": [{"$ref": "#/$defs/S"}]}, "loop": {"$ref": "#/$defs/loop"},
		"a/b": {"type": "string"}},
		"definitions": {"N": {"type": "integer"}}`
	for _, c := range []struct{ schema, text, want string }{
		{`{}`, `12`, `12`}, {`{}`, `12x`, `"12x"`}, {`{}`, `"x"`, `"\"x\""`}, {`{}`, `None`, `null`}, {`{}`, `none`, `"none"`},
		{`{}`, `['a']`, `"['a']"`},
		{`{}`, `TRUE`, `"TRUE"`}, {`true`, `12`, `12`}, {`{"type": "any"}`, `12`, `12`},
		{`{"type": "string"}`, `12`, `"12"`}, {`{"type": "string"}`, `null`, `"null"`}, {`{"type": "string"}`, `['a']`, `"['a']"`},
		{`{"type": "STRING"}`, `12`, `"12"`}, {`{"type": "date"}`, `2024`, `"2024"`},
		{`{"type": "integer"}`, `12`, `12`}, {`{"type": "integer"}`, ` 12 `, `12`},
		{`{"type": "integer"}`, `12345678901234567890123`, `12345678901234567890123`},
		{`{"type": "integer"}`, `5.5`, `"5.5"`}, {`{"type": "integer"}`, `+5`, `5`}, {`{"type": "integer"}`, `many`, `"many"`},
		{`{"type": "int"}`, `5`, `5`},
		{`{"type": "number"}`, `1e3`, `1e3`}, {`{"type": "number"}`, `.5`, `0.5`}, {`{"type": "number"}`, `true`, `"true"`},
		{`{"type": "boolean"}`, `TRUE`, `true`}, {`{"type": "boolean"}`, `False`, `false`}, {`{"type": "boolean"}`, `yes`, `"yes"`},
		{`{"type": ["string", "null"]}`, `null`, `null`}, {`{"type": ["string", "null"]}`, `None`, `null`},
		{`{"type": ["string", "null"]}`, `none`, `"none"`},
		{`{"type": ["boolean", "string"]}`, `TRUE`, `"TRUE"`}, {`{"type": ["integer", "null"]}`, `none`, `null`},
		{`{"type": "string", "nullable": true}`, `null`, `null`},
		{`{"type": "array"}`, `['a', 'b']`, `["a","b"]`}, {`{"type": "array"}`, `["a", 'b']`, `["a","b"]`},
		{`{"type": "array"}`, `[True, None]`, `[true,null]`},
		{`{"type": "array"}`, `[{'k': (1, 2.5)}, true]`, `[{"k":[1,2.5]},true]`}, {`{"type": "array"}`, `('a', 'b')`, `["a","b"]`},
		{`{"type": "array"}`, `["a"]`, `["a"]`}, {`{"type": "array"}`, `['it\'s']`, `["it's"]`}, {`{"type": "array"}`, `[a, b]`, `"[a, b]"`},
		{`{"type": "array"}`, `[f()]`, `"[f()]"`}, {`{"type": "array"}`, `{'a': 1}`, `"{'a': 1}"`}, {`{"type": "array"}`, `['a'`, `"['a'"`},
		{`{"type": "object"}`, `{'a': 1, 'b': None}`, `{"a":1,"b":null}`}, {`{"type": "object"}`, `{}`, `{}`},
		{`{"type": "dict"}`, `{'a': 1}`, `{"a": 1}`},
		{`{"anyOf": [{"type": "array"}, {"type": "null"}]}`, `['a']`, `["a"]`},
		{`{"anyOf": [{"type": "array"}, {"type": "string"}]}`, `['a']`, `["a"]`},
		{`{"anyOf": [{"type": "array"}, {"type": "string"}]}`, `(1, 2)`, `"(1, 2)"`},
		{`{"anyOf": [{"type": "array"}, {"type": "string"}]}`, `[see]`, `"[see]"`},
		{`{"anyOf": [{"type": "integer"}, {"type": "string"}]}`, `12`, `12`}, {`{"anyOf": [{"type": "integer"}, {}]}`, `x`, `"x"`},
		{`{"allOf": [{"type": "string"}]}`, `12`, `"12"`}, {`{"oneOf": [{"type": "string"}]}`, `12`, `"12"`},
		{`{"allOf": [{"type": ["string", "integer"]}, {"type": ["string", "null"]}]}`, `12`, `"12"`},
		{`{"enum": ["1", "2"]}`, `1`, `"1"`}, {`{"enum": [1, 2]}`, `1`, `1`}, {`{"enum": ["1", 2]}`, `2`, `2`},
		{`{"enum": ["1", 2]}`, `1`, `"1"`},
		{`{"enum": [1, 2]}`, `3`, `3`}, {`{"enum": ["1", "2"]}`, `3`, `"3"`}, {`{"enum": [true, null]}`, `None`, `null`},
		{`{"enum": ["a", null]}`, `null`, `null`},
		{`{"type": "integer", "enum": [1, 2]}`, `3`, `3`},
		{`{"const": "7"}`, `7`, `"7"`}, {`{"const": 7}`, `7`, `7`}, {`{"const": true}`, `true`, `true`},
		{`{"$ref": "#/$defs/S"}`, `12`, `"12"`}, {`{"$ref": "#/$defs/A"}`, `12`, `"12"`}, {`{"$ref": "#/definitions/N"}`, `12`, `12`},
		{`{"$ref": "#/$defs/loop"}`, `12`, `12`}, {`{"$ref": "#/$defs/none"}`, `12`, `12`}, {`{"$ref": "#/$defs/a~1b"}`, `12`, `"12"`},
		{`{"$ref": "other.json"}`, `1`, `1`},
		{`{"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}]}`, `12`, `"12"`},
		{`{"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}]}`, `null`, `null`},
		{`{"type": "string"}`, `a < b & c`, `"a < b & c"`},
		{`{"type": "array"}`, strings.Repeat("[", 5000), `"` + strings.Repeat("[", 5000) + `"`},
		{`{"type": "integer"}`, strings.Repeat("-", 5000) + "1", `"` + strings.Repeat("-", 5000) + `1"`},
	} {
		tools := json.RawMessage(`[{"type": "function", "function": {"name": "f", "parameters": {"type": "object", ` + root +
			`, "properties": {"x": ` + c.schema + `}}}}]`)
		got, want := parameters(tools, "f")["x"].value(c.text), strings.ReplaceAll(c.want, " ", "")
		if kept := string(got); kept != c.want && strings.ReplaceAll(kept, " ", "") != want {
			t.Errorf("%q under %s: %s, want %s", c.text, c.schema, got, c.want)
		}
	}
}

func TestParametersThatAreComposed(t *testing.T) {
	for _, of := range []string{`{"$ref": "#/$defs/P", "$defs": {"P": {"properties": {"x": {"type": "string"}}}}}`,
		`{"allOf": [{"properties": {"x": {"type": "string"}}}]}`, `{"anyOf": [{}, {"properties": {"x": {"type": "string"}}}]}`,
		`{"allOf": [{"$ref": "#"}], "properties": {"x": {"type": "string"}}}`} {
		if got := parameters(json.RawMessage(`[{"name": "f", "parameters": `+of+`}]`), "f")["x"].value("12"); string(got) != `"12"` {
			t.Errorf("%s: %s", of, got)
		}
	}
}
