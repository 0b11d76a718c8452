package renderer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
)

// open returns the renderer of a template without any other option.
func open(t testing.TB, tok *tokenizer.Tokenizer, template string) *Renderer {
	t.Helper()
	r, err := New(tok, Options{Template: template})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func messagesOf(t testing.TB, text string) (chat []trinity.Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &chat); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return chat
}

// Messages have the form for templates that transformers gives them; testdata/record_forms.py records
// it.
func TestFormsMatchTransformers(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "forms.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Template    string
		Messages    json.RawMessage
		Text, Error string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	tok := loadTokenizer(t)
	for _, c := range cases {
		if c.Error != "" {
			continue // TestFormsThatTemplatesDoNotKnow has it
		}
		tokens, err := open(t, tok, c.Template).Render(messagesOf(t, string(c.Messages)), nil, false)
		if got := tok.Decode(tokens, false); err != nil || got != c.Text {
			t.Errorf("%s of %s: %q, %v, want %q", c.Template, c.Messages, got, err, c.Text)
		}
	}
}

// Where transformers would write nothing, or a list as Python prints it, the content has the form that
// the template knows.
func TestFormsThatTemplatesDoNotKnow(t *testing.T) {
	const walks = `{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %};{% endfor %}`
	const text = `{% for m in messages %}{{ m.role + ':' + m.content }};{% endfor %}`
	const first = `{% for m in messages %}{{ m.content[0]['text'] }};{% endfor %}` // and it has no calls before a tool's message
	const drops = `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% endif %};{% endfor %}`
	const prints = `{% for m in messages %}{{ m.content }};{% endfor %}`
	const thinks = `{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}` +
		`{% if p.type == 'thinking' %}[THINK]{{ p.thinking }}[/THINK]{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %};{% endfor %}`
	const joins = `{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '<' + c.function.arguments + '>' }}{% endfor %};{% endfor %}`
	const reasoning = `{% for m in messages %}{{ m.reasoning }}|{{ m.content }};{% endfor %}`
	const none = `{% for m in messages %}{% if m['content'] is none %}{{ m.tool_calls[0].function.name }}{% else %}` +
		`{{ '<' + m['content'] }}{% endif %};{% endfor %}`
	const calls = `"tool_calls":[{"function":{"name":"f","arguments":{}}}]}]`
	const parts = `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`
	tok := loadTokenizer(t)
	for _, c := range []struct{ template, chat, want string }{
		{walks, `[{"role":"user","content":"a"},{"role":"assistant","content":""}]`, "a;;"},
		{text, parts, "user:ab;"},
		{drops, parts, "ab;"},
		{prints, parts, "ab;"},
		{thinks, `[{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning":"hm"}]`, "q;[THINK]hm[/THINK]a;"},
		{thinks, `[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"text","text":"a"}],"thinking":"hm"}]`,
			"q;[THINK]hm[/THINK]a;"},
		{thinks, `[{"role":"user","content":"q"},
			{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}]`,
			"q;[THINK]hm[/THINK];"},
		{joins, `[{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":{"a":[1]}}}]}]`,
			`;<{"a": [1]}>;`},
		{none, `[{"role":"user","content":"q"},{"role":"assistant",` + calls, "<q;f;"},
		{none, `[{"role":"user","content":"q"},{"role":"assistant","content":null,` + calls, "<q;f;"},
		{text, `[{"role":"user","content":"q"},{"role":"assistant",` + calls, "user:q;assistant:;"},
		{text, `[{"role":"user","content":"q"},{"role":"assistant","content":null,` + calls, "user:q;assistant:;"},
		{walks, `[{"role":"user","content":"q"},{"role":"assistant","content":null,` + calls, "q;;"},
		{reasoning, `[{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"hm"}]`, "|q;hm|a;"},
		{first, `[{"role":"user","content":"q"},{"role":"tool","content":"3"}]`, "q;3;"},
	} {
		tokens, err := open(t, tok, c.template).Render(messagesOf(t, c.chat), nil, false)
		if got := tok.Decode(tokens, false); err != nil || got != c.want {
			t.Errorf("%s of %s: %q, %v, want %q", c.template, c.chat, got, err, c.want)
		}
	}
	changed := messagesOf(t, parts)
	changed[0].Content += " c" // as a workflow may
	tokens, err := open(t, tok, walks).Render(changed, nil, false)
	if got := tok.Decode(tokens, false); err != nil || got != "ab c;" {
		t.Errorf("a content that was changed: %q, %v", got, err)
	}
}

// A key that the template does not read is an error where training would lose it.
func TestKeysThatNobodyReads(t *testing.T) {
	const all = `{% for m in messages %}{{ m | tojson }}{% endfor %}{% if add_generation_prompt %}{"role": "assistant", {% endif %}`
	const plan = ChatML
	tok := loadTokenizer(t)
	for _, c := range []struct{ template, reply, want string }{
		{plan, `{"content":"a","weight":1,"name":"n"}`, ""},
		{plan, `{"content":"a","tool_plan":"p"}`,
			"messages[1], of the assistant, has the key tool_plan, which the chat template does not read: remove it"},
		{plan, `{"content":"a","thinking":"p"}`, "has the key reasoning_content or reasoning or thinking, which"},
		{plan, `{"content":"a","tool_calls":[{"id":"c"}]}`, "has the key tool_calls, which"},
		{plan, `{"content":"a","tool_calls":[],"reasoning":"","tool_plan":null}`, ""},
		{templateSource(t, "qwen3"), `{"content":"a","thinking":"p"}`, ""},
		{templateSource(t, "qwen25"), `{"content":"a","tool_calls":[{"function":{"name":"f","arguments":{}}}]}`, ""},
		{all, `{"content":"a","tool_plan":"p","thinking":"hm"}`, "cannot find the assistant's text"},
	} {
		chat := messagesOf(t, `[{"role":"user","content":"q"},{"role":"assistant",`+c.reply[1:]+`]`)
		r := open(t, tok, c.template)
		_, _, err := r.RenderTraining(chat, nil, allOf(chat))
		if asked := r.CheckKeys(chat); fmt.Sprint(asked) != fmt.Sprint(err) && c.template != all {
			t.Errorf("%.40s… of %s: %v as the prompt of a task, %v to learn", c.template, c.reply, asked, err)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s… of %s: %v, want %s", c.template, c.reply, err, c.want)
		}
	}
}

const opened = `{% for m in messages %}{% if m.role == 'assistant' %}{{ 'A:' }}{% set c = m.content %}{% if '</think>' in c %}` +
	`{% set c = c.split('</think>')[-1] %}{% endif %}{{ c + '<|im_end|>' }}{% else %}{{ 'U:' + m.content }}{% endif %}{% endfor %}` +
	`{% if add_generation_prompt %}{{ 'A:OPEN' }}{% endif %}`

// Where the prompt opens the thinking and the chat leaves it out, a reply is learned as the policy
// writes it.
func TestTrainingOpensThinking(t *testing.T) {
	tok := loadTokenizer(t)
	like := func(open string) string { return strings.ReplaceAll(opened, "OPEN", open) }
	bracket := strings.NewReplacer("<think>", "[THINK]", "</think>", "[/THINK]")
	const embedded = `{"content":"<think>\nhm\n</think>\n\na"}`
	for _, c := range []struct{ template, reply, want string }{
		{like(`<think>\n`), `{"content":"a","reasoning_content":"hm"}`, "U:qA:<think>\n[hm\n</think>\n\na<|im_end|>]"},
		{like(`<think>\n`), embedded, "U:qA:<think>\n[hm\n</think>\n\na<|im_end|>]"},
		{like(`<think>\n`), `{"content":"hm\n</think>\n\na"}`, "U:qA:<think>\n[hm\n</think>\n\na<|im_end|>]"},
		{like(`<think>\n`), `{"content":"a"}`, "U:qA:<think>\n[\n</think>\n\na<|im_end|>]"},
		{like(`<think>`), `{"content":"a","thinking":"hm"}`, "U:qA:<think>[hm</think>a<|im_end|>]"},
		{like(``), `{"content":"a","thinking":"hm"}`, "U:qA:[<think>\nhm\n</think>\n\na<|im_end|>]"},
		{like(``), embedded, "U:qA:[<think>\nhm\n</think>\n\na<|im_end|>]"},
		{like(``), `{"content":"a"}`, "U:qA:[a<|im_end|>]"},
		{bracket.Replace(like(`<think>`)), `{"content":"a","thinking":"hm"}`, "U:qA:[THINK][hm[/THINK]a<|im_end|>]"},
		{bracket.Replace(like(``)), bracket.Replace(embedded), "U:qA:[[THINK]hm[/THINK]a<|im_end|>]"},
		{strings.Replace(like(`<think>`), `'A:' }}`, `'A:</think>' }}`, 1), `{"content":"a","thinking":"hm"}`,
			"U:qA:<think>[hm</think>a<|im_end|>]"},
		{strings.Replace(like(`<think>\n`), `'A:' }}`, `'A:<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' }}`, 1),
			`{"content":"a","thinking":"hm"}`, "U:qA:<think>\n[hm\n</think>\n\na<|im_end|>]"},
		{strings.Replace(like(`<think>\n`), `'A:' }}`, `'A:<think>' + (m.reasoning_content or '') + '</think>' }}`, 1),
			`{"content":"a","thinking":"hm"}`, "U:qA:<think>\n[hm</think>a<|im_end|>]"},
	} {
		r := newRenderer(t, tok, c.template, nil)
		chat := messagesOf(t, `[{"role":"user","content":"q"},{"role":"assistant",`+c.reply[1:]+`]`)
		tokens, mask, err := r.RenderTraining(chat, nil, allOf(chat))
		if err != nil {
			t.Errorf("%s of %s: %v", c.template, c.reply, err)
			continue
		}
		begin := slices.Index(mask, true)
		if got := tok.Decode(tokens[:begin], false) + "[" + strings.Join(masked(tok, tokens, mask), "][") + "]"; got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.template, c.reply, got, c.want)
		}
		read := r.ReadText(tokens[begin:])
		if r.thinking.opens && (read.Content != "a" || read.Reasoning != strings.TrimSpace(read.Reasoning)) {
			t.Errorf("%s of %s: the reply is read as %+v", c.template, c.reply, read)
		}
		two := append(messagesOf(t, `[{"role":"user","content":"q"},{"role":"assistant","content":"b","thinking":"x"}]`), chat...)
		if _, _, err := r.RenderTraining(two, nil, allOf(two)); r.thinking.opens && !errors.Is(err, trinity.ErrRewritesHistory) &&
			!strings.Contains(c.template, "reasoning_content") {
			t.Errorf("%s: two turns: %v, want ErrRewritesHistory", c.template, err)
		}
	}
}

// What a turn that is learned has and the template leaves out is an error that says what to set, and
// thinking in the content is learned once.
func TestTrainingLosesNothing(t *testing.T) {
	const call = `"tool_calls":[{"function":{"name":"f","arguments":{}}}]`
	const chat = `{% for m in messages %}{{ m.role[0] + ':' }}{% if m.role == 'assistant' %}REPLY{% else %}{{ m.content }}{% endif %}` +
		`{% endfor %}{% if add_generation_prompt %}{{ 'a:PROMPT' }}{% endif %}`
	like := func(prompt, reply string) string {
		return strings.NewReplacer("PROMPT", prompt, "REPLY", reply).Replace(chat)
	}
	const other = `{% if m.tool_calls and m.reasoning_content %}{{ '#' + m.reasoning_content + '#f' }}{% endif %}{{ m.content }}`
	const twice = `{{ '<think>\n' + (m.reasoning_content or '') + '\n</think>\n\n' + m.content }}`
	const none = `{% if m.content is none %}{{ m.tool_calls[0].function.name }}{% else %}{{ 'x' + m.content }}{% endif %}`
	tok := loadTokenizer(t)
	for _, c := range []struct{ template, reply, want string }{
		{like("", other), `{"content":"a","reasoning":"hm",` + call + `}`, "#hm#fa"},
		{like("", other), `{"content":"a"}`, "a"},
		{like("", other), `{"content":"a","reasoning":"hm"}`, "leaves out the thinking of messages[1]"},
		{like("", none), `{"content":null,` + call + `}`, "f"},
		{like("", none), `{"content":"",` + call + `}`, "leaves out the calls of tools of messages[1]"},
		{like(`<think>\n\n</think>\n\n`, twice), `{"content":"a","reasoning":"hm"}`,
			"closes the thinking in its prompt: set model.enable_thinking"},
		{like(`<think>\n\n</think>\n\n`, twice), `{"content":"a"}`, "a"},
		{like(`<think>\n`, twice), `{"content":"<think>\nhm\n</think>\n\na"}`, "hm\n</think>\n\na"},
		{like(``, twice), `{"content":"<think>hm</think>a"}`, "<think>\nhm\n</think>\n\na"},
	} {
		messages := messagesOf(t, `[{"role":"user","content":"q"},{"role":"assistant",`+c.reply[1:]+`]`)
		tokens, mask, err := open(t, tok, c.template).RenderTraining(messages, nil, allOf(messages))
		if got := strings.Join(masked(tok, tokens, mask), "|"); got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %s: %q, %v, want %q", c.template, c.reply, got, err, c.want)
		}
	}
}

// A chat that the assistant opens has what opens any reply as its prompt.
func TestTrainingOfTheFirstMessage(t *testing.T) {
	tok := loadTokenizer(t)
	r := newRenderer(t, tok, ChatML, nil)
	chat := messagesOf(t, `[{"role":"assistant","content":"a"},{"role":"user","content":"q"},{"role":"assistant","content":"b"}]`)
	tokens, mask, err := r.RenderTraining(chat, nil, allOf(chat))
	if got := strings.Join(masked(tok, tokens, mask), " "); err != nil || got != "a<|im_end|> b<|im_end|>" {
		t.Errorf("learns %q, %v", got, err)
	}
	r = newRenderer(t, tok, strings.ReplaceAll(opened, "OPEN", `<think>\n`), nil)
	tokens, mask, err = r.RenderTraining(chat, nil, []bool{true, false, false})
	if got := tok.Decode(tokens, false); err != nil || got != "A:<think>\n\n</think>\n\na<|im_end|>" || mask[0] || !mask[len(mask)-1] {
		t.Errorf("%q, %v", got, err)
	}
}

// A template that writes the calls of a message without content only, as DeepSeek-R1's does, writes
// those that the policy sampled.
func TestCallsOfAMessageWithoutContent(t *testing.T) {
	const template = `{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{% else %}{{ m.content }}{% endif %};{% endfor %}`
	tok := loadTokenizer(t)
	r := open(t, tok, template)
	const said = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"
	m, calls, err := r.Read(tok.Encode(said, false), json.RawMessage(`[{}]`))
	if err != nil || len(calls) != 1 {
		t.Fatalf("%+v, %v, %v", m, calls, err)
	}
	if m.ToolCalls, err = json.Marshal(calls); err != nil {
		t.Fatal(err)
	}
	tokens, err := r.Render([]trinity.Message{{Role: "user", Content: "q"}, m}, nil, false)
	if got := tok.Decode(tokens, false); err != nil || !strings.Contains(got, `"name": "f"`) {
		t.Errorf("%q, %v: the call is lost", got, err)
	}
}

// Messages that users met; the inputs are not part of the repository.
func TestFieldMessages(t *testing.T) {
	tok := loadTokenizer(t)
	for _, kind := range []string{"template-message-keys", "template-null-content", "template-parts", "template-text-arguments"} {
		dir := filepath.Join("..", "..", "..", "shared", "data", "field", kind)
		input, err := os.Open(filepath.Join(dir, "input.jsonl"))
		if err != nil {
			t.Skipf("the inputs of users are not here: %v", err)
		}
		defer input.Close()
		expected, err := os.ReadFile(filepath.Join(dir, "expected"))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSpace(string(expected)), "\n")
		lines := bufio.NewScanner(input)
		for n := 0; lines.Scan(); n++ {
			var c struct {
				Template string
				Messages []trinity.Message
			}
			var text string
			if err := errors.Join(json.Unmarshal(lines.Bytes(), &c), json.Unmarshal([]byte(want[n]), &text)); err != nil {
				t.Fatal(err)
			}
			tokens, err := open(t, tok, c.Template).Render(c.Messages, nil, false)
			if got := tok.Decode(tokens, false); err != nil || got != text {
				t.Errorf("%s, line %d: %q, %v, want %q", kind, n+1, got, err, text)
			}
		}
	}
}

// New probes a slow template with a fraction of a render's steps. The template renders chats as before.
func TestASlowTemplateIsProbedBriefly(t *testing.T) {
	const slow = `{% for i in range(1000) %}{% set x = ('%600d' % i) * 100 %}{% endfor %}` +
		`{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}`
	quick := open(t, loadTokenizer(t), strings.Replace(slow, "range(1000)", "range(1)", 1))
	r := open(t, loadTokenizer(t), slow)
	if r.template.Limits != jinja.DefaultLimits {
		t.Errorf("the limits are %+v", r.template.Limits)
	}
	if quick.forms.parts["user"] != contentParts || r.forms.parts["user"] != contentText {
		t.Errorf("forms %v of the quick template, %v of the slow one", quick.forms.parts, r.forms.parts)
	}
	if _, err := r.Render([]trinity.Message{{Role: "user", Content: "q"}}, nil, false); err != nil {
		t.Error(err)
	}
}
