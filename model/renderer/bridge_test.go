package renderer

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// The prompt, what the policy samples, and the bridge spell what transformers writes for the next
// prompt, and Read takes what lies between apart. Where a template rewrites the turn, Bridge says so.
func TestBridgeContinuesTheChat(t *testing.T) {
	tok := loadTokenizer(t)
	bridged, rewritten := map[string]int{}, map[string]int{}
	for i, c := range loadChats(t) {
		r := newRenderer(t, tok, templateSource(t, c.Template), c.Kwargs)
		for _, turn := range c.Turns {
			history, more := slices.Clone(c.Messages[:turn.Reply+1]), c.Messages[turn.Reply+1:]
			more = more[:slices.IndexFunc(more, func(m trinity.Message) bool { return m.Role == "assistant" })]
			said := &history[turn.Reply]
			asRead(r, said)
			prompt, next := tok.Decode(turn.Prompt, false), tok.Decode(turn.Next, false)
			bridge, err := r.Bridge(history, more, c.Tools, true)
			if errors.Is(err, trinity.ErrRewritesHistory) {
				rewritten[c.Template]++
				dropped := said.Reasoning != "" && !r.template.Names("reasoning_content") // though the record has it in the content
				if rest, ok := strings.CutPrefix(next, prompt); ok && !dropped && strings.Contains(rest, said.Reasoning) {
					t.Errorf("chat %d, %s, message %d: nothing is rewritten in %q", i, c.Template, turn.Reply, next)
				}
				continue
			}
			if err != nil {
				t.Errorf("chat %d, %s, message %d: %v", i, c.Template, turn.Reply, err)
				continue
			}
			bridged[c.Template]++
			reply, before := strings.CutPrefix(next, prompt)
			reply, after := strings.CutSuffix(reply, tok.Decode(bridge, false))
			if !before || !after {
				t.Errorf("chat %d, %s, message %d: %q is not %q, a reply and %q", i, c.Template, turn.Reply, next, prompt, tok.Decode(bridge, false))
				continue
			}
			m, calls, err := r.Read(tok.Encode(reply, false), c.Tools)
			if err != nil || strings.TrimSpace(m.Content) != said.Content || m.Reasoning != said.Reasoning || !sameCalls(t, r, calls, said) {
				t.Errorf("chat %d, %s, message %d: %q is read as %+v with calls %v, %v", i, c.Template, turn.Reply, reply, m, calls, err)
			}
		}
	}
	for _, template := range []string{"qwen3", "mistral_tools", "mistral_tekken"} { // the last two move the tools to the last question
		if rewritten[template] == 0 || bridged[template] == 0 {
			t.Errorf("%s: %d bridged and %d rewritten, want some of both", template, bridged[template], rewritten[template])
		}
	}
	for _, template := range []string{"qwen25", "smollm2", "llama31", "qwen3_coder"} {
		if bridged[template] < 5 || rewritten[template] > 0 {
			t.Errorf("%s: %d bridged and %d rewritten, want all bridged", template, bridged[template], rewritten[template])
		}
	}
}

// sameCalls reports whether the calls that were read are those of a message, if the template writes
// calls.
func sameCalls(t *testing.T, r *Renderer, calls []trinity.ToolCall, m *trinity.Message) bool {
	t.Helper()
	if m.ToolCalls == nil || r.CallFormat() == toolcall.None {
		return calls == nil
	}
	var want []struct {
		Function struct{ Name, Arguments any }
	}
	if err := json.Unmarshal(m.ToolCalls, &want); err != nil {
		t.Fatal(err)
	}
	if len(calls) != len(want) {
		return false
	}
	for i, c := range calls {
		var arguments any
		if err := json.Unmarshal(c.Arguments, &arguments); err != nil || c.Name != want[i].Function.Name ||
			!reflect.DeepEqual(arguments, want[i].Function.Arguments) {
			return false
		}
	}
	return true
}

// asRead takes the thinking out of a message's content, as Read does.
func asRead(r *Renderer, m *trinity.Message) {
	if !r.thinking.parsed {
		m.Reasoning = ""
	} else if thought, content, ok := strings.Cut(m.Content, knownMarks[0].close); ok {
		m.Reasoning, m.Content = strings.Trim(strings.TrimPrefix(thought, knownMarks[0].open), "\n"), strings.TrimLeft(content, "\n")
	}
}

func TestBridgeClosesAReplyThatWasCut(t *testing.T) {
	tok := loadTokenizer(t)
	r := newRenderer(t, tok, ChatML, nil)
	history := []trinity.Message{{Role: "user", Content: "a"}, {Role: "assistant", Content: "<|im_end|> cut"}}
	for ended, want := range map[bool]string{
		true:  "\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n",
		false: "<|im_end|>\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n",
	} {
		bridge, err := r.Bridge(history, []trinity.Message{{Role: "user", Content: "b"}}, nil, ended)
		if got := tok.Decode(bridge, false); err != nil || got != want {
			t.Errorf("ended %v: %v, got %q, want %q", ended, err, got, want)
		}
	}
	if history[1].Content != "<|im_end|> cut" {
		t.Error("Bridge changed the history")
	}
}

func TestKeepThinkingBridgesWhatTheTemplateRewrites(t *testing.T) {
	tok := loadTokenizer(t)
	history := []trinity.Message{{Role: "user", Content: "a"}, {Role: "assistant", Reasoning: "hm", Content: "A"}}
	more := []trinity.Message{{Role: "user", Content: "b"}}
	r := newRenderer(t, tok, templateSource(t, "qwen3"), nil)
	if _, err := r.Bridge(history, more, nil, true); !errors.Is(err, trinity.ErrRewritesHistory) {
		t.Errorf("error %v, want %v", err, trinity.ErrRewritesHistory)
	}
	if !r.RewritesHistory() || newRenderer(t, tok, ChatML, nil).RewritesHistory() {
		t.Error("RewritesHistory: want true for qwen3 and false for chatml")
	}
	r.keepThinking = true
	bridge, err := r.Bridge(history, more, nil, true)
	if got, want := tok.Decode(bridge, false), "\n<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n"; err != nil || got != want {
		t.Errorf("%v, got %q, want %q", err, got, want)
	}
}

func TestReadTakesAReplyApart(t *testing.T) {
	tok := loadTokenizer(t)
	r := newRenderer(t, tok, templateSource(t, "qwen3"), nil)
	for _, c := range []struct{ text, reasoning, content, call, err string }{
		{text: "It is 3.<|im_end|>", content: "It is 3."},
		{text: "<think>\nhmm\n</think>\n\nYes.<|im_end|>", reasoning: "hmm", content: "Yes."},
		{text: "hmm\n</think>\n\nYes.", content: "hmm\n</think>\n\nYes."}, // the prompt opens no thinking
		{text: "<think>\nhmm and", reasoning: "hmm and"},
		{text: "Now:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>", content: "Now:", call: `add{"a": 1}`},
		{text: "<tool_call>\n{\"name\": \"add\"<|im_end|>", content: "<tool_call>\n{\"name\": \"add\"", err: "<tool_call> without </tool_call>"},
		{text: "a<|im_start|>b<|im_end|>", content: "ab"},
	} {
		m, calls, err := r.Read(tok.Encode(c.text, false), nil)
		if m.Role != "assistant" || m.Reasoning != c.reasoning || m.Content != c.content {
			t.Errorf("%q: %+v", c.text, m)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.err)
		}
		got := ""
		for _, call := range calls {
			got += call.Name + string(call.Arguments)
		}
		if got != c.call {
			t.Errorf("%q: calls %q, want %q", c.text, got, c.call)
		}
	}
}

// Llama's template raises an error for two calls, so a reply that has two must not reach it.
func TestReadRefusesCallsThatTheTemplateCannotWrite(t *testing.T) {
	tok := loadTokenizer(t)
	for template, reply := range map[string]string{
		"llama31": `{"name": "f", "parameters": {}}; {"name": "f", "parameters": {}}<|eot_id|>`,
		"qwen25":  `<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "f"}</tool_call><|im_end|>`,
	} {
		r := newRenderer(t, tok, templateSource(t, template), nil)
		m, calls, err := r.Read(tok.Encode(reply, false), nil)
		if refused := err != nil && strings.Contains(err.Error(), "the reply has 2 calls"); refused != (template == "llama31") {
			t.Errorf("%s: %d calls, %v", template, len(calls), err)
		}
		if err != nil && (calls != nil || !strings.HasPrefix(m.Content, `{"name"`)) {
			t.Errorf("%s: message %+v and calls %v beside the error", template, m, calls)
		}
	}
}

func TestReasoningParserOverridesTheTemplate(t *testing.T) {
	tok := loadTokenizer(t)
	for _, c := range []struct {
		template, reasoning string
		reads, marks        string
	}{
		{templateSource(t, "qwen3"), "hm", "", "<think></think>"}, {templateSource(t, "qwen3"), "hm", "auto", "<think></think>"},
		{templateSource(t, "qwen3"), "", "none", "<think></think>"}, {templateSource(t, "qwen3"), "", "auto", "[THINK][/THINK]"},
		{ChatML, "", "", "<think></think>"}, {ChatML, "hm", "qwen3", "<think></think>"}, {ChatML, "hm", "deepseek_r1", "<think></think>"},
		{ChatML, "hm", "mistral", "[THINK][/THINK]"}, {ChatML, "", "mistral", "<think></think>"},
		{"{# [THINK] and [/THINK] #}", "hm", "auto", "[THINK][/THINK]"}, {"{# [THINK] and [/THINK] #}", "", "qwen3", "[THINK][/THINK]"},
	} {
		r, err := New(tok, Options{Template: c.template, ReasoningParser: c.reads})
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := r.Read(tok.Encode(strings.NewReplacer("><", ">hm<", "][", "]hm[").Replace(c.marks)+"yes", false), nil)
		if err != nil || m.Reasoning != c.reasoning || !strings.HasSuffix(m.Content, "yes") {
			t.Errorf("%.20q: %+v, %v, want the thinking %q", c.template, m, err, c.reasoning)
		}
	}
}
