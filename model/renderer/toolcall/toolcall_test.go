package toolcall

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestHermesReadsCalls(t *testing.T) {
	for _, c := range []struct{ text, content, calls, err string }{
		{text: "no call", content: "no call"},
		{text: "Now:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", content: "Now:", calls: `add{"a": 1};`},
		{text: `<tool_call>{"name":"f"}</tool_call> <tool_call>{"name":"g","arguments":"{\"b\":2}"}</tool_call>`, calls: `f{};g{"b":2};`},
		{text: `<tool_call>{"name":"f","arguments":null}</tool_call> then`, content: " then", calls: `f{};`},
		{text: `<tool_call>{"name":"f"`, err: "<tool_call> without </tool_call>"},
		{text: `<tool_call>add(1)</tool_call>`, err: `a call is no JSON object: "add(1)"`},
		{text: `<tool_call>{}</tool_call>`, err: `a call has no "name"`},
		{text: `<tool_call>{"name":"f","arguments":[1]}</tool_call>`, err: "the call of f: the arguments are no JSON object: \"[1]\""},
	} {
		content, calls, err := hermes{}.Parse(c.text)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.err)
		}
		got := ""
		for _, call := range calls {
			got += call.Name + string(call.Arguments) + ";"
		}
		if content != c.content || got != c.calls {
			t.Errorf("%q: content %q and calls %q, want %q and %q", c.text, content, got, c.content, c.calls)
		}
	}
}

func TestTheTemplateTellsTheFormat(t *testing.T) {
	for template, want := range map[string]string{"": none, "{{ messages }}": none, "… <tool_call>{{ call }}</tool_call>": "hermes"} {
		if name, _ := Of(template); name != want {
			t.Errorf("%q: format %s, want %s", template, name, want)
		}
	}
	if _, err := Open("hermess", ""); err == nil || !strings.Contains(err.Error(), "want auto or hermes, none") {
		t.Errorf("error %v", err)
	}
}

// Whatever the policy writes, each call has a name and a JSON object.
func FuzzParse(f *testing.F) {
	f.Add("a<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>b")
	f.Add("<tool_call><tool_call>{}</tool_call>")
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range formats {
			_, calls, err := format.parse.Parse(text)
			if err != nil && len(calls) > 0 {
				t.Errorf("%s: %d calls beside the error %v", format.name, len(calls), err)
			}
			for _, c := range calls {
				var arguments map[string]json.RawMessage
				if c.Name == "" || json.Unmarshal(c.Arguments, &arguments) != nil {
					t.Errorf("%s: %+v", format.name, c)
				}
			}
		}
	})
}
