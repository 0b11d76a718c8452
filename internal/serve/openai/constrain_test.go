package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/constraint"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/internal/model/toolcall"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// uniform draws every byte that the constraint allows equally often, and prefers what ends a text.
type uniform struct{}

func (uniform) Sample(_ context.Context, _ trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	var out []trinity.Completion
	r := rand.New(rand.NewPCG(p.Seed, 2))
	for i := range p.N {
		c, at := trinity.Completion{FinishReason: "length", Changed: p.Constrains()}, p.Constraint.Fork()
		for len(c.Tokens) < p.MaxTokens && c.FinishReason == "length" {
			var mask [4]uint64
			at.Mask(mask[:])
			var allowed []int32
			for token := range int32(256) {
				if mask[token/64]>>(token%64)&1 == 1 && (token > 0 || len(c.Tokens) >= p.MinTokens) {
					allowed = append(allowed, token)
				}
			}
			if len(allowed) == 0 {
				return nil, fmt.Errorf("sampler: %w: a dead end", trinity.ErrConstraint)
			}
			token := allowed[r.IntN(len(allowed))]
			for _, end := range []int32{']', '"', '}', 0} {
				if slices.Contains(allowed, end) && r.IntN(3) > 0 {
					token = end
				}
			}
			if err := at.Accept(token); err != nil {
				return nil, err
			}
			if c.Tokens, c.Logprobs = append(c.Tokens, token), append(c.Logprobs, -1); token == 0 {
				c.FinishReason = "stop"
			}
			if p.OnToken != nil {
				p.OnToken(i, c.At(len(c.Tokens)-1))
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// callingRenderer reads calls in the format hermes.
type callingRenderer struct{ bytesRenderer }

func (callingRenderer) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	_, p, err := toolcall.Open("hermes", "", "")
	if err != nil {
		return trinity.Message{}, nil, err
	}
	content, calls, err := p.Parse(bytesRenderer{}.Decode(tokens), tools)
	return trinity.Message{Role: "assistant", Content: content}, calls, err
}

// byteVocabulary has a token for each byte.
func byteVocabulary(t *testing.T) *constraint.Vocabulary {
	t.Helper()
	v := tokenizer.Vocabulary{Model: "llama", AddBOS: new(false), BOS: -1, EOS: 0, UNK: -1, PAD: -1}
	for c := range 256 {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, fmt.Sprintf("<0x%02X>", c)), append(v.Types, 6), append(v.Scores, 0)
	}
	tok, err := tokenizer.FromVocabulary(v)
	if err != nil {
		t.Fatal(err)
	}
	return constraint.Of(tok, []int32{0})
}

func startUniform(t *testing.T) *httptest.Server {
	t.Helper()
	v := byteVocabulary(t)
	served := &Served{
		Name: "m", Sampler: uniform{}, Renderer: callingRenderer{}, MaxLen: 2000,
		Constrain: func(f constraint.Form) (trinity.Constraint, error) {
			if f.Calls != nil {
				f.Calls.Format = "hermes"
			}
			return v.Compile(f)
		},
	}
	server := &Server{Name: "m", Model: served.Of, Renderer: callingRenderer{}, VocabSize: 256, Waiting: 9, Timeout: time.Minute}
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	return web
}

const (
	oneTool  = `[{"type":"function","function":{"name":"f","parameters":{"properties":{"n":{"type":"integer"}},"required":["n"]}}}]`
	twoTools = `[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","parameters":` +
		`{"type":"object","properties":{"x":{"const":"y"}},"required":["x"],"additionalProperties":false}}}]`
	user = `"messages":[{"role":"user","content":"hi"}],`
)

func TestRepliesHaveTheirForm(t *testing.T) {
	web := startUniform(t)
	for _, c := range []struct {
		path, keys string
		fits       func(text string) bool
	}{
		{chatPath, user + `"response_format":{"type":"json_object"}`,
			func(s string) bool { return json.Valid([]byte(s)) && strings.Contains(s, "{") }},
		{chatPath, user + `"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":{"type":"object",` +
			`"properties":{"a":{"enum":["b"]}},"required":["a"],"additionalProperties":false}}}`, asJSON(`{"a":"b"}`)},
		{chatPath, user + `"response_format":{"type":"json_object","schema":null,"json_schema":null}`,
			func(s string) bool { return json.Valid([]byte(s)) && strings.Contains(s, "{") }},
		{plainPath, `"prompt":"x","guided_json":{"const":[1]}`, asJSON(`[1]`)},
		{plainPath, `"prompt":"x","guided_json":"{\"const\":[1]}"`, asJSON(`[1]`)},
		{plainPath, `"prompt":"x","json_schema":"{\"const\":[1]}"`, asJSON(`[1]`)},
		{plainPath, `"prompt":"x","guided_regex":"a{3}b?","guided_decoding_backend":"auto"`,
			func(s string) bool { return s == "aaa" || s == "aaab" }},
		{plainPath, `"prompt":"x","regex":"(c|d)e"`, func(s string) bool { return s == "ce" || s == "de" }},
		{chatPath, user + `"guided_choice":["yes","no"]`, func(s string) bool { return s == "yes" || s == "no" }},
		{chatPath, user + `"structured_outputs":{"choice":["yes"],"regex":null}`, func(s string) bool { return s == "yes" }},
		{chatPath, user + `"structured_outputs":{"json":{"const":null}}`, asJSON("null")},
		{chatPath, user + `"structured_outputs":{"regex":"a"}`, func(s string) bool { return s == "a" }},
		{chatPath, user + `"structured_outputs":{"json_object":true}`, func(s string) bool { return json.Valid([]byte(s)) }},
	} {
		for seed := range 5 {
			status, text := ask(t, web, c.path, "", fmt.Sprintf(`{%s,"seed":%d,"n":2,"logprobs":%s}`, c.keys, seed,
				map[string]string{chatPath: "true", plainPath: "0"}[c.path]))
			var r wire.Response
			if err := json.Unmarshal([]byte(text), &r); status != 200 || err != nil || len(r.Choices) != 2 {
				t.Fatalf("%s: %d %s", c.keys, status, text)
			}
			for _, choice := range r.Choices {
				said := ""
				if choice.Message != nil {
					said = choice.Message.Content
				} else {
					said = *choice.Text
				}
				if *choice.FinishReason == "stop" && !c.fits(said) || choice.SampledFrom != "constrained" {
					t.Errorf("%s: %q %s", c.keys, said, text)
				}
			}
		}
	}
}

// asJSON reports whether a text is a JSON value.
func asJSON(want string) func(string) bool {
	return func(text string) bool {
		var v any
		return json.Unmarshal([]byte(text), &v) == nil && func() bool { got, _ := json.Marshal(v); return string(got) == want }()
	}
}

func TestDemandedCalls(t *testing.T) {
	web := startUniform(t)
	for _, c := range []struct {
		keys  string
		names []string
		most  int
	}{
		{`"tools":` + oneTool + `,"tool_choice":"required"`, []string{"f"}, 99},
		{`"tools":` + twoTools + `,"tool_choice":"required","parallel_tool_calls":false`, []string{"f", "g"}, 1},
		{`"tools":` + twoTools + `,"tool_choice":{"type":"function","function":{"name":"g"}}`, []string{"g"}, 1},
	} {
		for seed := range 8 {
			status, text := ask(t, web, chatPath, "", fmt.Sprintf(`{%s%s,"seed":%d}`, user, c.keys, seed))
			var r wire.Response
			if err := json.Unmarshal([]byte(text), &r); status != 200 || err != nil {
				t.Fatalf("%s: %d %s", c.keys, status, text)
			}
			choice := r.Choices[0]
			if *choice.FinishReason == "length" {
				continue
			}
			calls := choice.Message.ToolCalls
			if *choice.FinishReason != "tool_calls" || len(calls) == 0 || len(calls) > c.most || choice.Message.Content != "" {
				t.Fatalf("%s: %s", c.keys, text)
			}
			for _, call := range calls {
				if !slices.Contains(c.names, call.Function.Name) || !json.Valid([]byte(call.Function.Arguments)) ||
					call.Function.Name == "g" && call.Function.Arguments != `{"x":"y"}` && call.Function.Arguments != `{"x": "y"}` &&
						!asJSON(`{"x":"y"}`)(call.Function.Arguments) {
					t.Errorf("%s: %s", c.keys, text)
				}
			}
		}
	}
	// A reply with a form may call a tool instead.
	calls, texts := 0, 0
	for seed := range 20 {
		_, text := ask(t, web, chatPath, "", fmt.Sprintf(`{%s"tools":%s,"guided_choice":["<no","<yes"],"seed":%d}`, user, oneTool, seed))
		switch {
		case strings.Contains(text, `"tool_calls":[`):
			calls++
		case strings.Contains(text, `"content":"<no"`), strings.Contains(text, `"content":"<yes"`), strings.Contains(text, `"content":"\u003c`):
			texts++
		case !strings.Contains(text, `"length"`):
			t.Error(text)
		}
	}
	if calls == 0 || texts == 0 {
		t.Errorf("%d calls, %d texts", calls, texts)
	}
}

func TestFormsThatCannotBe(t *testing.T) {
	web := startUniform(t)
	deep := strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000)
	for _, c := range []struct{ path, keys, param, want string }{
		{chatPath, user + `"response_format":{"type":"json_schema"}`, "response_format", "no json_schema.schema"},
		{chatPath, user + `"response_format":{"type":"grammar"}`, "response_format", "want text, json_object or json_schema"},
		{chatPath, user + `"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","not":{}}}}`, "response_format",
			`at #/not: the keyword \"not\" is not supported`},
		{chatPath, user + `"response_format":{"type":"json_schema","json_schema":{"schema":null}}`, "response_format", "no json_schema.schema"},
		{chatPath, user + `"guided_json":{"$ref":"https://example.com/x.json"}`, "guided_json",
			`at #/$ref: \"https://example.com/x.json\" is not supported: copy what it names into $defs`},
		{chatPath, user + `"guided_choice":[]`, "guided_choice", "want a list of one or more texts"},
		{chatPath, user + `"structured_outputs":{"choice":[]}`, "structured_outputs", "want a list of one or more texts"},
		{chatPath, user + `"guided_json":{"type":"thing"}`, "guided_json", "the schema is not valid"},
		{chatPath, user + `"guided_json":` + deep, "guided_json", "nested deeper than 64 levels"},
		{chatPath, user + `"guided_json":{"$ref":"#"}`, "guided_json", "refers to itself without"},
		{chatPath, user + `"guided_json":false`, "guided_json", "no text fits"},
		{chatPath, user + `"guided_json":"{"`, "guided_json", "cannot be read"},
		{chatPath, user + `"regex":"a(","seed":1`, "regex", "missing closing"},
		{chatPath, user + `"regex":1`, "regex", "want a regular expression"},
		{chatPath, user + `"guided_choice":[""]`, "guided_choice", "choice 1 has 0 bytes"},
		{chatPath, user + `"guided_choice":["a"],"regex":"a"`, "regex", "guided_choice asks for a form, too"},
		{chatPath, user + `"structured_outputs":{}`, "structured_outputs", "has 0 forms"},
		{chatPath, user + `"structured_outputs":{"grammar":"x"}`, "structured_outputs", "structured_outputs.grammar is not supported"},
		{chatPath, user + `"guided_grammar":"x"`, "guided_grammar", "is not supported"},
		{chatPath, user + `"regex":"a","ignore_eos":true`, "ignore_eos", "leave ignore_eos or regex out"},
		{chatPath, user + `"tool_choice":"required"`, "tool_choice", "without tools"},
		{chatPath, user + `"tool_choice":{"type":"function","function":{"name":"h"}},"tools":` + oneTool, "tool_choice",
			`no tool is called \"h\"`},
		{chatPath, user + `"tool_choice":"required","regex":"a","tools":` + oneTool, "regex", "tool_choice demands a call"},
		{chatPath, user + `"tool_choice":"maybe","tools":` + oneTool, "tool_choice", "is not supported"},
		{chatPath, user + `"regex":"aa","min_tokens":9`, "", "a dead end"},
	} {
		body := "{" + c.keys + "}"
		if status, text := ask(t, web, c.path, "", body); status != 400 || !strings.Contains(text, c.want) ||
			c.param != "" && !strings.Contains(text, `"param":"`+c.param+`"`) {
			t.Errorf("%.200s: %d %s\nwant %q of %s", body, status, text, c.want, c.param)
		}
	}
}
