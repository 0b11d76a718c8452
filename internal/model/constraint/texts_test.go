package constraint

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// coderWords returns a vocabulary of bytes and of pieces that look like the marks of arguments.
func coderWords() *Vocabulary {
	var texts []string
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}))
	}
	texts = append(texts, "")
	texts = append(texts,
		"</parameter>", "</param", "eter>", "<parameter=", "<parameter=a>\n", "\n</parameter>\n",
		"</function>", "<function=f>", "<tool_call>", "</tool_call>",
		"null", "None", "true", "False", " true", "5", "12", "-", "[1", "{\"", "\"a", "\n\n", " ", "abc", "</", "[]", "{}", "é", "x</parameter",
		"\"</parameter>", "\\u003c",
	)
	return newVocabulary(texts, []int32{stop})
}

// checkArguments writes calls with an argument of a schema as texts, and reads them.
func checkArguments(t *testing.T, v *Vocabulary, c trinity.Constraint, schema, tools json.RawMessage, seeds int) (ended int) {
	t.Helper()
	_, parser, err := toolcall.Open("qwen3_coder", "", "")
	if err != nil {
		t.Fatal(err)
	}
	s := checker(t, string(schema))
	for seed := range seeds {
		text, whole := write(t, v, c.Fork(), rand.New(rand.NewPCG(uint64(seed), 3)), 300)
		if !whole {
			continue
		}
		ended++
		content, calls, err := parser.Parse(text, tools)
		if err != nil || len(calls) == 0 || strings.TrimSpace(content) != "" {
			t.Fatalf("%s: %q: %v, %q %d calls", schema, text, err, content, len(calls))
		}
		for _, call := range calls {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(call.Arguments))
			if err == nil {
				err = s.Validate(value)
			}
			if err != nil {
				t.Fatalf("%s: %q: %s: %v", schema, text, call.Arguments, err)
			}
		}
	}
	return ended
}

// withArgument returns the schema of a tool's parameters with an argument, and the tools.
func withArgument(schema string) (parameters, tools json.RawMessage) {
	parameters = json.RawMessage(`{"type":"object","properties":{"a":` + schema + `,"b":{"type":"boolean"}},"required":["a"],` +
		`"additionalProperties":false,"$defs":{"s":{"type":["string","null"],"maxLength":5}}}`)
	return parameters, json.RawMessage(`[{"type":"function","function":{"name":"f","parameters":` + string(parameters) + `}}]`)
}

var argumentSchemas = []string{
	`{"type":"string","maxLength":30}`, `{"type":"string"}`, `{"anyOf":[{"type":"string","maxLength":9},{"type":"null"}]}`,
	`{"type":["string","integer","boolean"],"minimum":10,"minLength":2,"maxLength":12}`, `{}`,
	`{"enum":["5",5,"null",null,"true","[1]","é\n"]}`,
	`{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"array","items":{"type":"string"},"minItems":1}`,
	`{"type":"object"}`,
	`{"type":"string","pattern":"^[0-9]+$"}`, `{"type":["string","array"],"pattern":"[<\\[]","items":{"type":"integer"}}`,
	`{"const":{"a":["x"]}}`,
	`{"type":"object","properties":{"s":{"type":"string","minLength":2,"maxLength":20},"t":{}},"required":["s"]}`,
	`{"type":"number","minimum":3}`,
	`{"$ref":"#/$defs/s"}`, `{"allOf":[{"type":["string","integer"]},{"type":"string"}]}`, `{"type":["string","integer"],"enum":["7",8]}`,
}

// Arguments that stand as texts are read as the schema takes them, also where tokens spell the marks
// between arguments, or a text looks like another value.
func TestArgumentsAsTexts(t *testing.T) {
	v, ended := coderWords(), 0
	for _, schema := range argumentSchemas {
		parameters, tools := withArgument(schema)
		c, err := v.Compile(Form{Calls: &Calls{Format: "qwen3_coder", Tools: tools, Several: true}})
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		ended += checkArguments(t, v, c, parameters, tools, 30)
	}
	if ended < 200 {
		t.Errorf("%d texts ended", ended)
	}
}

// A text that the form takes is read as the schema has it, whatever it looks like. Those that stand first are
// taken.
func TestOddArguments(t *testing.T) {
	v := coderWords()
	_, parser, err := toolcall.Open("qwen3_coder", "", "")
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{"5", "12", "null", "None", "True", " true ", "[1]", `{"a": 1}`, "abc", "x y",
		`"q"`, "", "\n", "-", "- x", "1e3", "é", "'a'", "7", "8",
		"x</parameter>", "</parameter>\n</function>\n</tool_call>", "x\n</parameter>\n<parameter=c>\ntrue", "<parameter=b>", "a\n</parameter>\n",
		`["x</parameter>\n<parameter=c>\ntrue"]`, "</function>", "<tool_call>"}
	for _, c := range []struct {
		schema string
		fit    string // texts that the form takes
	}{
		{`{"type":"string"}`, `5|null|[1]|abc|"q"||</function>|<tool_call>`},
		{`{"type":["string","null"]}`, `null|abc|x y|"q"|'a'`},
		{`{"type":["string","integer"],"minimum":10}`, "12|abc|é"},
		{`{}`, `5|null|[1]|{"a": 1}|abc`},
		{`{"enum":["5",5,"null",null,"x</param"]}`, "5|null"},
		{`{"type":"array"}`, "[1]"},
		{`{"anyOf":[{"type":"string","pattern":"^[a-z ]+$"},{"type":"number"}]}`, "abc|x y|12"},
	} {
		parameters, tools := withArgument(c.schema)
		at, err := v.Compile(Form{Calls: &Calls{Format: "qwen3_coder", Tools: tools}})
		if err != nil {
			t.Fatal(err)
		}
		s := checker(t, string(parameters))
		for _, value := range append(odd, strings.Split(c.fit, "|")...) {
			text := "<tool_call>\n<function=f>\n<parameter=a>\n" + value + "\n</parameter>\n</function>\n</tool_call>"
			if !takes(at.(*cursor).g, text) {
				if slices.Contains(strings.Split(c.fit, "|"), value) {
					t.Errorf("%s does not take %q", c.schema, value)
				}
				continue
			}
			_, calls, err := parser.Parse(text, tools)
			if err != nil || len(calls) != 1 {
				t.Fatalf("%s: %q: %v, %d calls", c.schema, value, err, len(calls))
			}
			got, err := jsonschema.UnmarshalJSON(bytes.NewReader(calls[0].Arguments))
			if err == nil {
				err = s.Validate(got)
			}
			if err != nil || strings.Contains(string(calls[0].Arguments), `"c"`) {
				t.Errorf("%s: %q is read as %s: %v", c.schema, value, calls[0].Arguments, err)
			}
		}
	}
}

// FuzzArguments demands calls with an argument of any schema.
func FuzzArguments(f *testing.F) {
	for _, schema := range argumentSchemas {
		f.Add(schema)
	}
	for seed := range uint64(30) {
		f.Add(randomSchema(rand.New(rand.NewPCG(seed, 17)), 3))
	}
	v := coderWords()
	f.Fuzz(func(t *testing.T, schema string) {
		v.cache = cache{}
		parameters, tools := withArgument(schema)
		if !json.Valid(parameters) {
			return
		}
		c, err := v.Compile(Form{Calls: &Calls{Format: "qwen3_coder", Tools: tools, Several: true}})
		if err == nil {
			checkArguments(t, v, c, parameters, tools, 2)
		}
	})
}
