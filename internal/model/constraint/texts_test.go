package constraint

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// Arguments that stand as texts are read as the schema takes them, also where tokens spell the marks
// between arguments, or a text looks like another value.
func TestArgumentsAsTexts(t *testing.T) {
	var texts []string
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}))
	}
	texts = append(texts, "")
	for _, piece := range []string{
		"</parameter>", "</param", "eter>", "<parameter=", "<parameter=a>\n", "\n</parameter>\n", "</function>", "<function=f>", "<tool_call>", "</tool_call>",
		"null", "None", "true", "False", " true", "5", "12", "-", "[1", "{\"", "\"a", "\n\n", " ", "abc", "</", "[]", "{}", "é", "x</parameter", "\"</parameter>", "\\u003c",
	} {
		texts = append(texts, piece)
	}
	v := newVocabulary(texts, []int32{stop})
	_, parser, err := toolcall.Open("qwen3_coder", "", "")
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, schema := range []string{
		`{"type":"string","maxLength":30}`, `{"type":"string"}`, `{"anyOf":[{"type":"string","maxLength":9},{"type":"null"}]}`,
		`{"type":["string","integer","boolean"],"minimum":10,"minLength":2,"maxLength":12}`, `{}`, `{"enum":["5",5,"null",null,"true","[1]","é\n"]}`,
		`{"type":"object","additionalProperties":{"type":"string"}}`, `{"type":"array","items":{"type":"string"},"minItems":1}`, `{"type":"object"}`,
		`{"type":"string","pattern":"^[0-9]+$"}`, `{"type":["string","array"],"pattern":"[<\\[]","items":{"type":"integer"}}`, `{"const":{"a":["x"]}}`,
		`{"type":"object","properties":{"s":{"type":"string","minLength":2,"maxLength":20},"t":{}},"required":["s"]}`, `{"type":"number","minimum":3}`,
		`{"$ref":"#/$defs/s"}`, `{"allOf":[{"type":["string","integer"]},{"type":"string"}]}`,
	} {
		parameters := `{"type":"object","properties":{"a":` + schema + `,"b":{"type":"boolean"}},"required":["a"],"additionalProperties":false,` +
			`"$defs":{"s":{"type":["string","null"],"maxLength":5}}}`
		tools := json.RawMessage(`[{"type":"function","function":{"name":"f","parameters":` + parameters + `}}]`)
		c, err := v.Compile(Form{Calls: &Calls{Format: "qwen3_coder", Tools: tools, Several: true}})
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		s := checker(t, parameters)
		for seed := range uint64(30) {
			text, whole := write(t, v, c.Fork(), rand.New(rand.NewPCG(seed, 3)), 300)
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
	}
	if ended < 200 {
		t.Errorf("%d texts ended", ended)
	}
}
