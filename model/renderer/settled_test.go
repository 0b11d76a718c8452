package renderer

import (
	"encoding/json"
	"strings"
	"testing"
)

// Cut after any token, a stream has what the whole reply begins with, and nothing is taken back.
func TestSettledIsWhatTheReplyBeginsWith(t *testing.T) {
	tok := loadTokenizer(t)
	opened := strings.ReplaceAll(chatMLSource, `assistant\n' }}`, `assistant\n<think>\n' }}`)
	for _, c := range []struct{ name, template, parser, pattern string }{
		{"bracket", ChatML, "mistral", ""},
		{"qwen3", templateSource(t, "qwen3"), "", ""}, {"coder", templateSource(t, "qwen3_coder"), "", ""},
		{"llama", templateSource(t, "llama31"), "", ""}, {"mistral", ChatML, "mistral", ""}, {"pythonic", ChatML, "pythonic", ""},
		{"plain", ChatML, "plain", `<(?P<name>f)>(?P<s>[^<]*)</f>`}, {"any", ChatML, "plain", `(?P<name>f)<`}, {"none", ChatML, "none", ""},
		{"opened", opened, "hermes", ""},
	} {
		for _, tools := range []json.RawMessage{nil, json.RawMessage(`[{"type": "function", "function": {"name": "f"}}]`)} {
			reasoning := "qwen3"
			if c.name == "bracket" {
				reasoning = "mistral"
			}
			r, err := New(tok, Options{Template: c.template, ToolCallParser: c.parser, ToolCallPattern: c.pattern, ReasoningParser: reasoning})
			if err != nil {
				t.Fatal(err)
			}
			if r.thinking.opens != (c.name == "opened") {
				t.Errorf("%s: prompts open the thinking: %v", c.name, r.thinking.opens)
			}
			for _, thought := range []string{"", "<think>\nhm 3 < 4 \n\n</think>\n\n", " <think>long, naïve 日本", "</think>", "\n\nhm</think>",
				"[THINK]hm [3]\n[/THINK]", "[THINK]long"} {
				for _, said := range []string{"", "It is 日本 🙂.\n", "a<|im_start|>b < 3",
					"Now\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\nso",
					"<tool_call>{\"name\"", `{"name": "f", "parameters": {}}; {`, `{"name": "Ada"} <f>`, "[f(a=1)]", "[fine] [f(", "x[TOOL_CALLS]f{}",
					"a <f>1</f> b", "<tool_call><function=f></function></tool_call>", "Look.<|python_tag|>{}"} {
					tokens := tok.Encode(thought+said+"<|im_end|>", false)
					want := r.ReadText(tokens)
					if tools != nil {
						want, _, _ = r.Read(tokens, tools)
					}
					var before struct{ reasoning, content string }
					for i := range tokens {
						m := r.Settled(tokens[:i+1], tools)
						if !strings.HasPrefix(want.Reasoning, m.Reasoning) || !strings.HasPrefix(want.Content, m.Content) {
							t.Errorf("%s: %q: settled %+v, whole %+v", c.name, tok.Decode(tokens[:i+1], false), m, want)
						}
						if !strings.HasPrefix(m.Reasoning, before.reasoning) || !strings.HasPrefix(m.Content, before.content) {
							t.Errorf("%s: %q: settled %+v after %+v", c.name, tok.Decode(tokens[:i+1], false), m, before)
						}
						before.reasoning, before.content = m.Reasoning, m.Content
					}
				}
			}
		}
	}
	r, err := New(tok, Options{Template: templateSource(t, "qwen3")})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][2]string{"<think>\nI see": {"I see", ""},
		"<think>\nI see</think>\n\nYes, 3<4 ": {"I see", "Yes, 3<4 "},
		"Yes\n<tool":                          {"", "Yes"}} {
		if m := r.Settled(tok.Encode(text, false), json.RawMessage(`[{}]`)); m.Reasoning != want[0] || m.Content != want[1] {
			t.Errorf("%q: settled %+v, want %q", text, m, want)
		}
	}
}
