package renderer

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/trinity-go/trinity/internal/model/constraint"
)

const callTools = `[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{` +
	`"src":{"type":"string","maxLength":9},"n":{"type":"integer","minimum":-5,"maximum":1200},` +
	`"deep":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]},` +
	`"e":{"enum":["a","é\"",null]},"maybe":{"anyOf":[{"type":"string"},{"type":"integer","minimum":7},{"type":"null"}]},"any":{},` +
	`"list":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2},"code":{"type":"string","pattern":"^[<a-z]{3}"}},` +
	`"required":["n","deep","e"],"additionalProperties":false}}},` +
	`{"type":"function","function":{"name":"go_on"}}]`

// Calls that are demanded of a model are calls as its renderer reads them, in each format, with arguments
// that the tool takes.
func TestDemandedCallsAreRead(t *testing.T) {
	tok := loadTokenizer(t)
	schema := parametersOf(t, callTools)
	for template, format := range map[string]string{
		"qwen25": "hermes", "llama31": "llama3_json", "mistral_tools": "mistral", "llama32_pythonic": "pythonic", "qwen3_coder": "qwen3_coder",
		`(?s)CALL (?P<name>\w+)\s+(?P<arguments>\{.*?\}) END`: "plain", `CALL (?P<name>\w+):\s*(?P<arguments>\{.*\})$`: "plain",
	} {
		o := Options{ToolCallParser: format}
		switch format {
		case "plain":
			o.ToolCallPattern = template
		case "hermes", "llama3_json", "mistral", "qwen3_coder":
			o = Options{Template: templateSource(t, template)}
		}
		r, err := New(tok, o)
		if err != nil || r.CallFormat() != format {
			t.Fatalf("%s: %q %v", template, r.CallFormat(), err)
		}
		for _, name := range []string{"", "f", "go_on"} {
			demanded := &constraint.Calls{Tools: json.RawMessage(callTools), Name: name, Several: true}
			c, err := r.Constrain(constraint.Form{Calls: demanded, Opens: true})
			if err != nil {
				t.Fatalf("%s: %v", template, err)
			}
			ended := 0
			for seed := range uint64(12) {
				at, random := c.Fork(), rand.New(rand.NewPCG(seed, 3))
				mask := make([]uint64, (tok.VocabSize()+63)/64)
				var tokens []int32
				for len(tokens) < 400 {
					at.Mask(mask)
					var allowed []int32
					for token := range int32(tok.VocabSize()) {
						if mask[token/64]>>(token%64)&1 == 1 {
							allowed = append(allowed, token)
						}
					}
					token := allowed[random.IntN(len(allowed))]
					isEnd := func(x int32) bool { return slices.Contains(r.StopTokens(), x) }
					if i := slices.IndexFunc(allowed, isEnd); i >= 0 && seed%3 > 0 {
						token = allowed[i]
					}
					if err := at.Accept(token); err != nil {
						t.Fatal(err)
					}
					if tokens = append(tokens, token); slices.Contains(r.StopTokens(), token) {
						break
					}
				}
				if !slices.Contains(r.StopTokens(), tokens[len(tokens)-1]) {
					continue
				}
				ended++
				m, calls, err := r.Read(tokens, json.RawMessage(callTools))
				if err != nil || len(calls) == 0 || strings.TrimSpace(m.Content) != "" || template == "llama31" && len(calls) > 1 {
					t.Fatalf("%s: %q: %d calls, content %q, %v", template, r.Decode(tokens), len(calls), m.Content, err)
				}
				for _, call := range calls {
					if call.Name == "f" {
						value, err := jsonschema.UnmarshalJSON(bytes.NewReader(call.Arguments))
						if err == nil {
							err = schema.Validate(value)
						}
						if err != nil {
							t.Fatalf("%s: %q: %s: %v", template, r.Decode(tokens), call.Arguments, err)
						}
					}
					var arguments struct {
						N    *int
						Deep struct{ OK *bool }
					}
					if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
						t.Fatal(err)
					}
					isWrong := arguments.N == nil || *arguments.N > 1200 || arguments.Deep.OK == nil
					if name != "" && call.Name != name || call.Name == "f" && isWrong {
						t.Errorf("%s: %q: %s %s", template, r.Decode(tokens), call.Name, call.Arguments)
					}
				}
			}
			if ended == 0 {
				t.Errorf("%s, tool %q: no reply ended", template, name)
			}
		}
	}
}

// parametersOf returns what the first tool takes.
func parametersOf(t *testing.T, tools string) *jsonschema.Schema {
	t.Helper()
	var all []struct{ Function struct{ Parameters any } }
	if err := json.Unmarshal([]byte(tools), &all); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:f", all[0].Function.Parameters); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:f")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A model that thinks may think first, and must if its prompt opens the thinking.
func TestFormsBehindThinking(t *testing.T) {
	tok := loadTokenizer(t)
	for _, c := range []struct {
		template string
		fits     string
		not      string
	}{
		{"{{ messages }}", "yes", "<think>\nhm</think>\nyes"},
		{"{{ messages }}{# </think> #}", "<think>\nhm\n</think>\n\nyes", "<think>hm</think>no"},
		{"{{ messages }}{# </think> #}", "yes", "hm</think>yes"},
		{"{{ messages }}{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}", "hm < </thin\n</think>\nyes", "yes"},
	} {
		r, err := New(tok, Options{Template: c.template})
		if err != nil {
			t.Fatal(err)
		}
		start, err := r.Constrain(constraint.Form{Choice: []string{"yes"}, Opens: true})
		if err != nil {
			t.Fatal(err)
		}
		whole := func(text string) bool {
			at := start.Fork()
			for _, token := range append(r.tok.Encode(text, false), r.stop[0]) {
				if at.Accept(token) != nil {
					return false
				}
			}
			return true
		}
		if !whole(c.fits) || whole(c.not) {
			t.Errorf("%s: takes %q: %v, %q: %v", c.template, c.fits, whole(c.fits), c.not, whole(c.not))
		}
	}
}
