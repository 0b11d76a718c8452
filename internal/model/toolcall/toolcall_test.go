package toolcall

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

// reading is a reply and what a parser reads in it: the content, and the calls as name{arguments};.
type reading struct{ text, content, calls, err string }

func check(t *testing.T, p Parser, cases []reading) {
	t.Helper()
	for _, c := range cases {
		content, calls, err := p.Parse(c.text, tools)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.err)
		}
		if got := text(calls); content != c.content || got != c.calls {
			t.Errorf("%q: content %q and calls %q, want %q and %q", c.text, content, got, c.content, c.calls)
		}
	}
}

func text(calls []trinity.ToolCall) (all string) {
	for _, c := range calls {
		all += c.ID + c.Name + string(c.Arguments) + ";"
	}
	return all
}

var tools = json.RawMessage(`[{"type": "function", "function": {"name": "f", "parameters": {"properties": {"s": {"type": "string"},
	"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "b": {"type": "boolean"}, "any": {}}}}}]`)

func TestHermesReadsCalls(t *testing.T) {
	check(t, hermes{}, []reading{
		{text: "no call", content: "no call"},
		{text: "Now:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", content: "Now:", calls: `add{"a": 1};`},
		{text: `<tool_call>{"name":"f"}</tool_call> <tool_call>{"name":"g","arguments":"{\"b\":2}"}</tool_call>`, calls: `f{};g{"b":2};`},
		{text: `<tool_call>{"name":"f","arguments":null}</tool_call> then`, content: " then", calls: `f{};`},
		{text: `<tool_call>{"name":"f"`, err: "<tool_call> without </tool_call>"},
		{text: `<tool_call>add(1)</tool_call>`, err: `a call is no JSON object: "add(1)"`},
		{text: `<tool_call>{}</tool_call>`, err: `a call has no "name"`},
		{text: `<tool_call>{"name":"f","arguments":{"s":"use </tool_call> to end"}}</tool_call>`, calls: `f{"s":"use </tool_call> to end"};`},
		{text: `<tool_call>{"name":"f","arguments":{"s":"<tool_call>{}</tool_call>"}}</tool_call> so`, content: " so",
			calls: `f{"s":"<tool_call>{}</tool_call>"};`},
		{text: `<tool_call>{"name":"f","arguments":{"s":"</tool_call>`, err: "a call is no JSON object"},
		{text: `<tool_call>{"name":"f"} and </tool_call>`, err: "a call is no JSON object"},
		{text: `<tool_call>{"name":"f"}<tool_call>{"name":"f"}</tool_call>`, err: "a call is no JSON object"},
		{text: `{"name": "f", "arguments": {}}`, err: "a call of f has no <tool_call> before it"},
		{text: "So:\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```", err: "a call of f has no <tool_call> before it"},
		{text: "So:\n [{\"arguments\": {}, \"name\": \"f\"}]", err: "a call of f has no <tool_call> before it"},
		{text: `{"name": "f"}`, content: `{"name": "f"}`},
		{text: `{"name": "other", "arguments": {}}`, content: `{"name": "other", "arguments": {}}`},
		{text: "{\"name\": \"other\"}\n</tool_call>", err: "</tool_call> without <tool_call>"},
		{text: "a call ends with </tool_call>", content: "a call ends with </tool_call>"},
		{text: `<function=f>{"n": 5}</function>`, calls: `f{"n": 5};`},
		{text: "I look.\n<function=f>\n{\"n\": 5}\n</function>\n<function=f>{}</function> so", content: "I look. so", calls: `f{"n": 5};f{};`},
		{text: `<tool_call><function=g>{"s": "</function></tool_call>"}</function></tool_call>`, calls: `g{"s": "</function></tool_call>"};`},
		{text: `<tool_call><function=f><parameter=n>5</parameter></function></tool_call>`, err: "the call of f is no JSON object"},
		{text: `<function=f>{"n": 5}`, err: "the call of f does not end with </function>"},
		{text: `<function=f>{"n": }</function>`, err: "the call of f is no JSON object between"},
		{text: "<function=f>\n<parameter=n>\n5\n</parameter>\n</function>", err: "the call of f is no JSON object between"},
		{text: `<function=f>[1]</function>`, err: "the call of f is no JSON object between"},
		{text: `Write <function=NAME>{"a": 1}</function>.`, content: `Write <function=NAME>{"a": 1}</function>.`},
		{text: "Write <function=f> before it", content: "Write <function=f> before it"},
		{text: `<tool_call>{"name":"f"}</tool_call> and {"name": "f", "arguments": {}}`, err: "a call of f has no <tool_call> before it"},
		{text: `So {"name": "f", "arguments": {}} it is`, err: "a call of f has no <tool_call> before it"},
		{text: `So {"function": "f", "arguments": {}}`, err: "a call of f has no <tool_call> before it"},
		{text: `So {"name": "f", "args": {}}`, err: "a call of f has no <tool_call> before it"},
		{text: `So {"name": "f", "arguments": {"s": "x`, err: "a call of f has no <tool_call> before it"},
		{text: `So {'name': 'f', 'arguments': {'s': 'x'}}`, err: "a call of f has no <tool_call> before it"},
		{text: `Write {"name": "f", "arguments": {...}}`, content: `Write {"name": "f", "arguments": {...}}`},
		{text: `So {"name": "f", "score": {"a": 1}}`, content: `So {"name": "f", "score": {"a": 1}}`},
		{text: `<tool_call>{"function": "f", "arguments": {"n": 1}}</tool_call>`, calls: `f{"n": 1};`},
		{text: `<tool_call>{"type": "function", "function": {"name": "f", "arguments": "{\"n\": 1}"}}</tool_call>`, calls: `f{"n": 1};`},
		{text: `f(n=1)`, err: "the call of f is written as Python"},
		{text: `[f(n=1)]`, err: "the call of f is written as Python"},
		{text: `f(n=1) gives 3`, content: `f(n=1) gives 3`},
		{text: "Sure!\nf(n=1)", err: "the call of f is written as Python"},
		{text: "Sure!\n`f(1, 2)`\n", err: "the call of f is written as Python"},
		{text: "I would call f(n=1) for it.", content: "I would call f(n=1) for it."},
		{text: "f(x)\nis a function", content: "f(x)\nis a function"},
		{text: `g(n=1)`, content: `g(n=1)`},
		{text: `<tool_call>{"name":"f","arguments":[1]}</tool_call>`, err: "the call of f: the arguments are no JSON object: \"[1]\""},
	})
}

func TestLlamaReadsCalls(t *testing.T) {
	check(t, llama3JSON{}, []reading{
		{text: ` {"type": "function", "name": "f", "parameters": {"a": 1}}`, calls: `f{"a": 1};`},
		{text: "Look.<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"arguments\": {}}", content: "Look.",
			calls: `f{};g{};`},
		{text: `{"name": "Ada", "born": 1815}`, content: `{"name": "Ada", "born": 1815}`},
		{text: `{"name": "f", "parameters": {}} done`, content: "done", calls: `f{};`},
		{text: `{"name": "f", "parameters"`, err: "a call is no JSON object"},
		{text: `<|python_tag|>f.call(q="x")`, err: "a call is no JSON object"},
		{text: `{"name": "f", "parameters": {}}; {"name": "g"}`, err: `a call has no "parameters"`},
		{text: `{"parameters": {"a": 1}, "name": "f"}`, calls: `f{"a": 1};`},
		{text: `{"parameters": {"a": 1}, "type": "function", "name": "g"}`, calls: `g{"a": 1};`},
		{text: `[{"name": "f", "parameters": {}}, {"arguments": {"a": 1}, "name": "g"}]`, calls: `f{};g{"a": 1};`},
		{text: `[{"name": "f", "parameters": {}}]; {"name": "g", "parameters": {}}`, calls: `f{};g{};`},
		{text: `<|python_tag|>[{"name": "f", "parameters": {}}]`, calls: `f{};`},
		{text: `<|python_tag|>[]`, err: "a list of calls is empty"},
		{text: `[{"name": "Ada"}, {"name": "Bob"}]`, content: `[{"name": "Ada"}, {"name": "Bob"}]`},
		{text: `[{"name": "f", "parameters": {}}, {"name": "Bob"}]`, err: `a call has no "parameters"`},
		{text: `{"name": "f", "parameters": {"s": "x <|python_tag|> y"}}`, calls: `f{"s": "x <|python_tag|> y"};`},
		{text: `{"name": "f", "parameters": {}}<|python_tag|>{"name": "g", "parameters": {}}`, calls: `f{};g{};`},
		{text: `{"name": "f", "parameters": {}} and <|python_tag|>{"name": "g", "parameters": {}}`, content: "and ", calls: `f{};g{};`},
		{text: "I look.\n{\"name\": \"f\", \"parameters\": {}}", content: "I look.", calls: `f{};`},
		{text: "A person:\n{\"name\": \"Ada\", \"parameters\": {}}", content: "A person:\n{\"name\": \"Ada\", \"parameters\": {}}"},
		{text: `{"a": 1} <|python_tag|>{"name": "f", "parameters": {}}`, content: `{"a": 1} `, calls: `f{};`},
		{text: `{'name': 'f', 'parameters': {}}`, err: "a call is no JSON object"},
		{text: `{"parameters": {"a": 1}, "name"`, err: "a call is no JSON object"},
		{text: `{"type": "function", "function": {"name": "f"}}`, err: `a call has no "parameters"`},
		{text: `{"function": "f", "parameters": {"n": 1}}`, calls: `f{"n": 1};`},
		{text: `{"type": "function", "function": "f", "parameters": {"n": 1}}`, calls: `f{"n": 1};`},
		{text: `{"type": "function", "function": {"name": "f", "arguments": {"n": 1}}}`, calls: `f{"n": 1};`},
		{text: `{"function": {"arguments": {"n": 1}, "name": "f"}}`, calls: `f{"n": 1};`},
		{text: `{"function": "cosine", "at": 3}`, content: `{"function": "cosine", "at": 3}`},
		{text: `I call {"name": "f", "parameters": {"n": 1}}`, content: "I call", calls: `f{"n": 1};`},
		{text: `I call {"name": "f", "parameters": {"n": 1}} now.`, content: "I call now.", calls: `f{"n": 1};`},
		{text: `I call {"parameters": {"n": 1}, "name": "f"} and [{"function": "f", "parameters": {}}].`, content: "I call and .",
			calls: `f{"n": 1};f{};`},
		{text: "Call:\n```json\n{\"function\": \"f\", \"parameters\": {}}\n```", content: "Call:\n```json ```", calls: `f{};`},
		{text: `I call {"name": "f", "parameters": {"n": 1`, err: "the call of f is no JSON object"},
		{text: `I call {'name': 'f', 'parameters': {'n': 1}}`, err: "the call of f is no JSON object"},
		{text: `I call {"name": "f", "args": {"n": 1}}`, err: `a call has no "parameters"`},
		{text: `Write {"name": "f", "parameters": {…}}.`, content: `Write {"name": "f", "parameters": {…}}.`},
		{text: `It is {"name": "Ada", "parameters": {"n": 1}} there`, content: `It is {"name": "Ada", "parameters": {"n": 1}} there`},
		{text: `f takes n`, content: `f takes n`},
		{text: `The tool is {"name": "f", "description": "adds", "parameters": {"type": "object", "properties": {}}}.`,
			content: `The tool is {"name": "f", "description": "adds", "parameters": {"type": "object", "properties": {}}}.`},
		{text: `{"type": "function", "function": {"name": "f", "description": "adds", "parameters": {"type": "object"}}}`,
			content: `{"type": "function", "function": {"name": "f", "description": "adds", "parameters": {"type": "object"}}}`},
		{text: `I look. <function=f>{"n": 1}</function>`, content: "I look. ", calls: `f{"n": 1};`},
		{text: `<function=f>{"n": 1</function>`, err: "the call of f is no JSON object between"},
		{text: `f(n=1)`, err: "the call of f is written as Python"},
		{text: `{"name": "f"}`, err: `a call has no "parameters"`},
		{text: `{"name": 3, "parameters": {}}`, content: `{"name": 3, "parameters": {}}`},
		{text: `{"name": "f", "parameters": 3}`, err: "the call of f: the arguments are no JSON object"},
	})
}

func TestMistralReadsCalls(t *testing.T) {
	check(t, mistral{}, []reading{
		{text: `[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "abcDEF123"}, {"name": "g", "id": "2"}]`,
			calls: `abcDEF123f{"a": 1};g{};`},
		{text: `Hm.[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{"a": "[TOOL_CALLS]"}[TOOL_CALLS]g{}`, content: "Hm.",
			calls: `abcDEF123f{"a": "[TOOL_CALLS]"};g{};`},
		{text: `[TOOL_CALLS]f[ARGS]{"a": `, err: "the arguments are no JSON object"},
		{text: `[TOOL_CALLS]f`, err: "[TOOL_CALLS] is followed by no call"},
		{text: `[TOOL_CALLS] []`, err: "[TOOL_CALLS] is followed by no JSON array of calls"},
		{text: `[TOOL_CALLS] [{"name": "f", "arguments": {"s": "[TOOL_CALLS] []"}}]`, calls: `f{"s": "[TOOL_CALLS] []"};`},
		{text: `[{"name": "f", "arguments": {}}]`, err: "a call of f has no [TOOL_CALLS] before it"},
		{text: `[TOOL_CALLS]{}`, err: `a call has no "name"`},
	})
}

func TestPythonicReadsCalls(t *testing.T) {
	check(t, pythonic{}, []reading{
		{text: `[f(a=-1, b='x', c=[True, None], d={"k": (1, 2.5)}), m.g()]`,
			calls: `f{"a": -1, "b": "x", "c": [true,null], "d": {"k":[1,2.5]}};m.g{};`},
		{text: `Look. <|tool_call_start|>[f(a=12345678901234567890)]<|tool_call_end|> Done.`, content: "Look.  Done.",
			calls: `f{"a": 12345678901234567890};`},
		{text: `<|python_start|>f()`, calls: `f{};`},
		{text: `<|python_start|>[f(s="<|python_end|>", t='a\'<|python_end|>')]<|python_end|> so`, content: " so",
			calls: `f{"s": "<|python_end|>", "t": "a'<|python_end|>"};`},
		{text: `<|python_start|>[f(s="""a"<|python_end|>""")]`, calls: `f{"s": "a\"<|python_end|>"};`},
		{text: `[f(s="<|python_start|>")]`, calls: `f{"s": "<|python_start|>"};`},
		{text: `<|tool_call_start|>[f(s="<|python_start|>")]<|tool_call_end|>`, calls: `f{"s": "<|python_start|>"};`},
		{text: `<|tool_call_start|>[f()]<|tool_call_end|>and<|tool_call_start|>[g()]<|tool_call_end|>`, content: "and", calls: `f{};g{};`},
		{text: "I add:\n[f(a=1)]", err: "the call of f stands beside other text"},
		{text: "I add:\n[g(a=1)]", content: "I add:\n[g(a=1)]"},
		{text: `{"name": "f", "arguments": {}}`, err: "a call of f has no Python call before it"},
		{text: `f(n=1, s="a) b")`, calls: `f{"n": 1, "s": "a) b"};`},
		{text: " f(\n  n=1,\n)\n", calls: `f{"n": 1};`},
		{text: "f()\nf(n=2); f(n=3),\nf()", calls: `f{};f{"n": 2};f{"n": 3};f{};`},
		{text: `f("x")`, err: "the call of f has an argument without a name"},
		{text: `f(n=`, err: "the call of f does not end"},
		{text: `f(n=1)` + "\nI wait.", err: "the call of f stands beside other text"},
		{text: "I look.\nf(n=1)", err: "the call of f stands beside other text"},
		{text: "I look.\n```python\nf(n=1)\n```", err: "the call of f stands beside other text"},
		{text: "I look.\n  f()", err: "the call of f stands beside other text"},
		{text: "I look.\nf(\"x\")", err: "the call of f stands beside other text"},
		{text: "I look.\nf(n=1, s=\"x", err: "the call of f stands beside other text"},
		{text: `I call [f(n=1)] now`, err: "the call of f stands beside other text"},
		{text: `I call [f(n=1)`, err: "the call of f stands beside other text"},
		{text: "f(n=1)\ng(n=1)", err: "the call of f stands beside other text"},
		{text: "f(n=1).", calls: `f{"n": 1};`},
		{text: "`f(n=1)`", err: "the call of f stands beside other text"},
		{text: "I look.\nx = f(n=1)", err: "the call of f stands beside other text"},
		{text: "I look.\ntools.f(n=1)", err: "the call of f stands beside other text"},
		{text: "I look.\nf(n=1). It is one", content: "I look.\nf(n=1). It is one"},
		{text: "x = f(n)", content: "x = f(n)"},
		{text: "I call f(n=1) now", content: "I call f(n=1) now"},
		{text: "f(n) is the number", content: "f(n) is the number"},
		{text: "f(n=1) is one", content: "f(n=1) is one"},
		{text: "The tools:\nf(n)\ng(n)", content: "The tools:\nf(n)\ng(n)"},
		{text: "See [f(n)](https://x).", content: "See [f(n)](https://x)."},
		{text: "g(n=1)", content: "g(n=1)"},
		{text: "f( is how it begins", content: "f( is how it begins"},
		{text: "f", content: "f"},
		{text: `<function=f>{"n": 1}</function>`, err: "a call of f has no Python call before it"},
		{text: `[f(p='\d+\n', q=r"\d", s='\'\w')]`, calls: `f{"p": "\\d+\n", "q": "\\d", "s": "'\\w"};`},
		{text: `[f(d={1: "a", None: 2, 2.5: 3})]`, calls: `f{"d": {"1":"a","null":2,"2.5":3}};`},
		{text: `[f(d={[1]: "a"})]`, err: "a key of a dict is a list"},
		{text: "[1] says so", content: "[1] says so"},
		{text: `[f(a=1`, err: "the calls are no list of Python calls"},
		{text: `[f(1)]`, err: "the call of f has an argument without a name"},
		{text: `[f(a=g())]`, err: "the call of f: an argument is no literal"},
		{text: `[f(a=x)]`, err: "the call of f: x is no value"},
		{text: `[f(a=1, a=2)]`, err: `it has the argument "a" twice`},
		{text: `[f(), 1]`, err: "the list has something other than calls"},
		{text: `[f(a=~1)]`, err: "an argument is no literal"},
	})
}

func TestQwenCoderReadsCalls(t *testing.T) {
	call := func(arguments string) string {
		return "<tool_call>\n<function=f>\n" + arguments + "</function>\n</tool_call>"
	}
	check(t, qwen3Coder{}, []reading{
		{text: "Now.\n" + call("<parameter=s>\n12\n\n</parameter>\n<parameter=n>\n12\n</parameter>\n"), content: "Now.",
			calls: `f{"s": "12\n", "n": 12};`},
		{text: call("<parameter=b>True</parameter><parameter=n>None</parameter>"), calls: `f{"b": true, "n": null};`},
		{text: call("<parameter=n>many</parameter><parameter=any>[1]</parameter>"), calls: `f{"n": "many", "any": [1]};`},
		{text: call("<parameter=unknown>true</parameter><parameter=any>\"x\"</parameter>"), calls: `f{"unknown": true, "any": "\"x\""};`},
		{text: call(""), calls: `f{};`},
		{text: call("<parameter=s>1"), err: `the argument "s" does not end`},
		{text: call("<parameter=s>1</parameter><parameter=s>2</parameter>"), err: `it has the argument "s" twice`},
		{text: call("why not"), err: "beside its arguments stands"},
		{text: "<tool_call>{}</tool_call>", err: "a call has no <function=NAME>"},
		{text: "<function=f>\n<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>", calls: `f{"n": 5};`},
		{text: "I edit.\n\n<function=f>\n<parameter=n>\n7\n</parameter>\n</function>", content: "I edit.", calls: `f{"n": 7};`},
		{text: "Now <function=f><parameter=n>5</parameter></function> done", content: "Now  done", calls: `f{"n": 5};`},
		{text: "<function=f>\n</function>\n<function=g>\n</function>\n</tool_call>", calls: `f{};g{};`},
		{text: call("") + "\n<function=g>\n</function>\n</tool_call>\n" + call(""), calls: `f{};g{};f{};`},
		{text: "<tool_call>\n<function=f>\n</function>\n<function=g>\n</function>\n</tool_call>", calls: `f{};g{};`},
		{text: "<tool_call>\n<function=f>\n</function>\n", calls: `f{};`},
		{text: "Write <function=NAME> to call a tool.", content: "Write <function=NAME> to call a tool."},
		{text: "Write `<function=f>`", content: "Write `<function=f>`"},
		{text: "<function=f> begins a call", content: "<function=f> begins a call"},
		{text: "Write <function=NAME>.\n<function=f>\n</function>", content: "Write <function=NAME>.", calls: `f{};`},
		{text: "<function=f>\n<parameter=n>\n5", err: `the argument "n" does not end`},
		{text: "<function=f>\n", err: "the call of f does not end with </function>"},
		{text: "Now\n<function=f", err: "a call has no <function=NAME>"},
		{text: "<function=f>5</function>", err: "beside its arguments stands"},
		{text: "{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", err: "a call of f has no <tool_call> before it"},
		{text: "<parameter=n>\n5\n</parameter>\n</function>\n</tool_call>", err: "</tool_call> without <tool_call>"},
		{text: "<tool_call>\n<function=f>\n</function>\nso", err: "<tool_call> without </tool_call>"},
		{text: call("<parameter=s>\na\n</tool_call>\nb\n</parameter>\n"), calls: `f{"s": "a\n</tool_call>\nb"};`},
		{text: call("<parameter=s>\na</function> b\n</parameter>\n<parameter=n>\n1\n</parameter>\n"),
			calls: `f{"s": "a</function> b", "n": 1};`},
		{text: call("<parameter=s>\nuse </parameter> to end\n</parameter>\n"), calls: `f{"s": "use </parameter> to end"};`},
		{text: call("<parameter=s>\nuse <parameter=x> to begin\n</parameter>\n"), calls: `f{"s": "use <parameter=x> to begin"};`},
		{text: call("<parameter=s>\n" + call("<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n") + "\n</parameter>\n"),
			calls: `f{"s": "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n` +
				`</function>\n</tool_call>"};`},
		{text: call("<parameter=s>\n1\n<parameter=n>\n2\n</parameter>\n"), err: `the argument "s" does not end`},
		{text: call("<parameter=s>\na\n</parameter>\n</function>\nb\n</parameter>\n"), calls: `f{"s": "a\n</parameter>\n</function>\nb"};`},
		{text: call("<parameter=s>\n<tool_call>\n</parameter>\n"), calls: `f{"s": "<tool_call>"};`},
		{text: "<tool_call><function=f></tool_call>", err: "the call of f does not end with </function>"},
	})
}

func TestPlainReadsCallsByAPattern(t *testing.T) {
	_, p, err := Open("auto", `<(?P<name>f|g)(?: (?P<n>\d+))?>(?P<s>[^<]*)</(?:f|g)>`, "")
	if err != nil {
		t.Fatal(err)
	}
	check(t, p, []reading{
		{text: "Now <f 3>3*4</f> and <g></g>.", content: "Now  and .", calls: `f{"n": 3, "s": "3*4"};g{"s": ""};`},
		{text: " <h>3</h>", content: " <h>3</h>"},
	})
	_, marked, err := Open("auto", `(?s)CALL (?P<name>\w+) (?P<arguments>\{.*?\}) END`, "")
	if err != nil {
		t.Fatal(err)
	}
	check(t, marked, []reading{
		{text: `CALL f {"s": "a} END b"} END and CALL g {} END`, content: "and", calls: `f{"s": "a} END b"};g{};`},
		{text: `CALL f {"s": "CALL g {} END"} END`, calls: `f{"s": "CALL g {} END"};`},
		{text: `CALL f {"s": `, err: `a call begins with "CALL "`},
		{text: `CALL f {} END CALL f`, err: `a call begins with "CALL "`},
	})
	for pattern, want := range map[string]string{
		"": "needs a tool_call_pattern", "(": "missing closing )", "(?P<arguments>.*)": "no group is called name",
		"(?P<name>.)(?P<arguments>.)(?P<a>.)": "the group arguments has all arguments, and a is another group",
	} {
		if _, _, err := Open(plain, pattern, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", pattern, err, want)
		}
	}
}

// The templates are those that the renderer is tested with.
func TestTheTemplateTellsTheFormat(t *testing.T) {
	for name, want := range map[string]string{"qwen25": "hermes", "qwen3": "hermes", "llama31": "llama3_json", "mistral_tools": "mistral",
		"mistral_tekken": "mistral", "qwen3_coder": "qwen3_coder",
		"smollm2": None, "chatml_generation": None} {
		source, err := os.ReadFile("../../../model/renderer/internal/jinja/testdata/templates/" + name + ".jinja")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := of(string(source)); got != want {
			t.Errorf("%s: format %s, want %s", name, got, want)
		}
		fits := 0
		for _, f := range formats {
			if f.writes(string(source)) {
				fits++
			}
		}
		if fits > 1 {
			t.Errorf("%s: %d formats fit", name, fits)
		}
	}
	for template, want := range map[string]string{"": None, "<tool_call><arg_key>": None, "<|tool_list_start|>": "pythonic",
		"<tool_call><function=x><parameter=y>": "qwen3_coder"} {
		if name, _ := of(template); name != want {
			t.Errorf("%q: format %s, want %s", template, name, want)
		}
	}
	if _, _, err := Open("hermess", "", ""); err == nil ||
		!strings.Contains(err.Error(), "want auto or hermes, llama3_json, mistral, none, plain, pythonic, qwen3_coder") {
		t.Errorf("error %v", err)
	}
	if _, _, err := Open("hermes", "(?P<name>x)", ""); err == nil || !strings.Contains(err.Error(), "tool_call_pattern is for") {
		t.Errorf("error %v", err)
	}
}

// Whatever the policy writes, each call has a name and a JSON object.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"a<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>b", "<tool_call><tool_call>{}</tool_call>",
		`{"name": "f", "parameters": {"a": 1}}; {`, `[TOOL_CALLS] [{"name": "f"}]`, `[TOOL_CALLS]f[CALL_ID]a[ARGS]{"a": 1}`,
		`[f(a=1, b={"x": [None, -2.5e3]})]`, "<tool_call><function=f><parameter=s>1</parameter></function></tool_call>", "CALL f {} END",
		"<function=f>\n<parameter=s>\na</parameter>b\n</parameter>\n</function>", "a\n <function=f> b </function>",
		"x\n{\"name\": \"f\", \"parameters\": {}}",
		"<|python_start|>[f(s='<|python_end|>')]<|python_end|> b<|tool_call_start|>", "[\n {\"a\": 1}] {\"name\": \"f\"}",
		"CALL f {\"a\": \"} END\"} END", "a {\"function\": \"f\", \"parameters\": {}} b", "<function=f>{}</function>c", "f(n=1)\nf()", "a\nf(n=",
		"<tool_call><function=f>{}</function></tool_call>",
	} {
		f.Add(text)
	}
	byPattern, err := newPlain(`CALL (?P<name>\w*) (?P<arguments>\S+) END`)
	if err != nil {
		f.Fatal(err)
	}
	all := append([]format{{name: plain, parse: byPattern}}, formats...)
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range all {
			content, calls, err := format.parse.Parse(text, tools)
			whole := content
			if err != nil {
				whole = text
			}
			for i := range len(text) + 1 {
				if settled := format.parse.Settled(text[:i]); !strings.HasPrefix(whole, settled) {
					t.Errorf("%s: %q is settled after %q, and the content of %q is %q", format.name, settled, text[:i], text, whole)
				}
			}
			if err != nil && len(calls) > 0 {
				t.Errorf("%s: %d calls beside the error %v", format.name, len(calls), err)
			}
			if err == nil && calls == nil && content != text {
				t.Errorf("%s: without a call %q became %q", format.name, text, content)
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

// A reply may mention a call's mark as often as it has room for. If the time grew with the square, this
// test would not end.
func TestParseManyMentions(t *testing.T) {
	for _, mention := range []string{"<function=f>", "f(n) ", "\nf(n)", `{"name": 3} `, "[f(n)] ", `{"name": "f", "arguments": {...}}`} {
		text := "So " + strings.Repeat(mention, 1<<18/len(mention))
		for _, format := range formats {
			if content, calls, err := format.parse.Parse(text, tools); content != text || calls != nil || err != nil {
				t.Errorf("%s, %s: %d bytes of content, %v, %v", format.name, mention, len(content), calls, err)
			}
		}
	}
}
