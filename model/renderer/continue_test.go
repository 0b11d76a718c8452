package renderer

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

// A chat whose last message the reply continues has the tokens that transformers gives it;
// testdata/record_continue.py writes them.
func TestContinueMatchesTransformers(t *testing.T) {
	tok := loadTokenizer(t)
	var chats []chatRecord
	trinitytest.ReadRecorded(t, filepath.Join("testdata", "continue.json.gz"), &chats)
	compared := 0
	for _, c := range chats {
		if c.Error != "" {
			continue
		}
		r := newRenderer(t, tok, templateSource(t, c.Template), c.Kwargs)
		got, _, err := r.Continue(c.Messages, c.Tools)
		if err != nil || !slices.Equal(got, c.Prompt) {
			t.Errorf("%s, %q: %v\ngot  %q\nwant %q", c.Template, c.Messages, err, tok.Decode(got, false), tok.Decode(c.Prompt, false))
		}
		compared++
	}
	if compared < 110 {
		t.Errorf("%d chats were compared", compared)
	}
}

// The rest of a reply is read as the end of a reply that begins with the message: thinking, text and calls
// are where they would be had the policy written all of it.
func TestTheRestOfAReply(t *testing.T) {
	tok := loadTokenizer(t)
	const opens = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}{# </think> #}`
	hermes := templateSource(t, "qwen25")
	for _, c := range []struct {
		template, begun, rest string
		thought, content      string // of the rest
		calls                 int
	}{
		{hermes, "The capital of France is", " Paris.", "", " Paris.", 0},
		{hermes, "<tool_call>\n{\"name\": \"add\",", " \"arguments\": {\"a\": 1}}\n</tool_call>", "", "", 1},
		{hermes, "Let me add. <tool_call>", "\n{\"name\": \"add\", \"arguments\": {}}\n</tool_call>", "", "", 1},
		{hermes, "", "Paris.", "", "Paris.", 0},
		{templateSource(t, "qwen3"), "It is", " 3.", "", " 3.", 0},
		{opens, "It is", " 3.", "", " 3.", 0},
		{opens, "<think>\nadd", " it</think>\n3", " it", "3", 0},
		{opens, "", "add\n</think>\n3", "add", "3", 0},
	} {
		r := newRenderer(t, tok, c.template, nil)
		messages := []trinity.Message{{Role: "user", Content: "question"}, {Role: "assistant", Content: c.begun}}
		_, reads, err := r.Continue(messages, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		tokens := append(tok.Encode(c.rest, false), r.StopTokens()[0])
		tools := []byte(`[{"type":"function","function":{"name":"add","parameters":{}}}]`)
		m, calls, err := reads.Read(tokens, tools)
		if err != nil || m.Reasoning != c.thought || m.Content != c.content || len(calls) != c.calls {
			t.Errorf("%q, %q: thought %q, content %q, %d calls, %v", c.begun, c.rest, m.Reasoning, m.Content, len(calls), err)
		}
		if m := reads.ReadText(tokens); c.calls == 0 && (m.Reasoning != c.thought || m.Content != c.content) {
			t.Errorf("%q, %q as text: thought %q, content %q", c.begun, c.rest, m.Reasoning, m.Content)
		}
		for n := range tokens {
			begins(t, reads.Settled(tokens[:n], tools), m)
		}
	}
	r := newRenderer(t, tok, `{% for m in messages %}{{ m.role }}{% endfor %}`, nil)
	if _, _, err := r.Continue([]trinity.Message{{Role: "assistant", Content: "a"}}, nil); err == nil {
		t.Error("a message that the template leaves out is continued")
	}
}

// begins reports a settled message that the whole one does not begin with.
func begins(t *testing.T, settled, whole trinity.Message) {
	t.Helper()
	if len(settled.Content) > len(whole.Content) || whole.Content[:len(settled.Content)] != settled.Content ||
		len(settled.Reasoning) > len(whole.Reasoning) || whole.Reasoning[:len(settled.Reasoning)] != settled.Reasoning {
		t.Errorf("settled %+v, whole %+v", settled, whole)
	}
}
