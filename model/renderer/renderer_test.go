package renderer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
	"github.com/trinity-go/trinity/trinitytest"
)

// chatRecord is a chat as transformers tokenizes it; testdata/record.py writes them.
type chatRecord struct {
	Template      string
	Messages      []trinity.Message
	Tools         json.RawMessage
	Kwargs        map[string]any
	Prompt, Whole []int32
	Mask          []int // nil if no turn can be located
	Turns         []struct {
		Reply        int // a message of the assistant that another one follows
		Prompt, Next []int32
	}
	Error string
}

var stops = []string{"<|im_end|>", "<|eot_id|>", "</s>"}

func loadTokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(filepath.Join("testdata", "tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func loadChats(t testing.TB) (chats []chatRecord) {
	t.Helper()
	trinitytest.ReadRecorded(t, filepath.Join("testdata", "chats.json.gz"), &chats)
	return chats
}

func templateSource(t testing.TB, name string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("internal", "jinja", "testdata", "templates", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

func newRenderer(t testing.TB, tok *tokenizer.Tokenizer, template string, kwargs map[string]any) *Renderer {
	t.Helper()
	o := Options{Template: template, Kwargs: map[string]any{"date_string": "21 Nov 2026"}}
	for k, v := range kwargs {
		o.Kwargs[k] = v
	}
	for _, s := range stops {
		id, ok := tok.TokenID(s)
		if !ok {
			t.Fatalf("the test tokenizer lacks %s", s)
		}
		o.StopTokens = append(o.StopTokens, id)
	}
	r, err := New(tok, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRenderMatchesTransformers(t *testing.T) {
	tok := loadTokenizer(t)
	for i, c := range loadChats(t) {
		if c.Error != "" {
			t.Fatalf("chat %d: the record is an error: %s", i, c.Error)
		}
		r := newRenderer(t, tok, templateSource(t, c.Template), c.Kwargs)
		for generate, want := range map[bool][]int32{true: c.Prompt, false: c.Whole} {
			got, err := r.Render(c.Messages, c.Tools, generate)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("chat %d, %s, generate %v: %v\n got %q\nwant %q", i, c.Template, generate, err, tok.Decode(got, false),
					tok.Decode(want, false))
			}
		}
	}
}

// allOf marks every message of the assistant.
func allOf(messages []trinity.Message) []bool {
	learn := make([]bool, len(messages))
	for i, m := range messages {
		learn[i] = m.Role == "assistant"
	}
	return learn
}

func TestRenderTrainingMatchesTransformers(t *testing.T) {
	tok := loadTokenizer(t)
	for i, c := range loadChats(t) {
		r := newRenderer(t, tok, templateSource(t, c.Template), c.Kwargs)
		tokens, mask, err := r.RenderTraining(c.Messages, c.Tools, allOf(c.Messages))
		if err != nil && strings.Contains(err.Error(), "the chat template does not read") {
			for j := range c.Messages { // transformers leaves this out without a word
				if m := &c.Messages[j]; !r.template.Names("reasoning_content") {
					m.Reasoning = ""
				}
				if m := &c.Messages[j]; !r.template.Names("tool_calls") {
					m.ToolCalls = nil
				}
			}
			tokens, mask, err = r.RenderTraining(c.Messages, c.Tools, allOf(c.Messages))
		}
		for learn := allOf(c.Messages); errors.Is(err, trinity.ErrRewritesHistory) && c.Mask != nil; {
			learn[slices.Index(learn, true)] = false // the record leaves these out
			tokens, mask, err = r.RenderTraining(c.Messages, c.Tools, learn)
		}
		if c.Mask == nil {
			if err == nil {
				t.Errorf("chat %d, %s: masked %q, want an error", i, c.Template, masked(tok, tokens, mask))
			}
			continue
		}
		if err != nil {
			t.Errorf("chat %d, %s: %v", i, c.Template, err)
			continue
		}
		want := make([]bool, len(c.Mask))
		for j, m := range c.Mask {
			want[j] = m == 1
		}
		if !slices.Equal(tokens, c.Whole) || !slices.Equal(mask, want) {
			t.Errorf("chat %d, %s:\n got %q\nwant %q", i, c.Template, masked(tok, tokens, mask), masked(tok, c.Whole, want))
		}
	}
}

// masked returns the texts of the masked runs.
func masked(tok *tokenizer.Tokenizer, tokens []int32, mask []bool) (runs []string) {
	for i := 0; i < len(mask); i++ {
		begin := i
		for i < len(mask) && mask[i] {
			i++
		}
		if i > begin {
			runs = append(runs, tok.Decode(tokens[begin:i], false))
		}
	}
	return runs
}

// Each turn of a chat that the template rewrites has a sequence of its own, with the template's history.
func TestEachTurnOfARewrittenChatIsASequence(t *testing.T) {
	tok := loadTokenizer(t)
	r := newRenderer(t, tok, templateSource(t, "qwen3"), nil)
	messages := []trinity.Message{
		{Role: "user", Content: "a"},
		{Role: "assistant", Content: "<think>\nx\n</think>\n\nA"}, // the template drops this thinking
		{Role: "user", Content: "b"},
		{Role: "assistant", Content: "<think>\ny\n</think>\n\nB"},
	}
	if _, _, err := r.RenderTraining(messages, nil, allOf(messages)); !errors.Is(err, trinity.ErrRewritesHistory) ||
		!strings.Contains(err.Error(), "1 of 2 turns") {
		t.Errorf("both turns in one chat: %v, want ErrRewritesHistory for 1 of 2 turns", err)
	}
	for i, want := range map[int]string{1: "<think>\nx\n</think>\n\nA<|im_end|>", 3: "<think>\ny\n</think>\n\nB<|im_end|>"} {
		learn := make([]bool, len(messages))
		learn[i] = true
		tokens, mask, err := r.RenderTraining(messages, nil, learn)
		if err != nil {
			t.Fatal(err)
		}
		prompt, err := r.Render(messages[:i], nil, true)
		if got := masked(tok, tokens, mask); err != nil || !slices.Equal(got, []string{want}) || !slices.Equal(tokens[:len(prompt)], prompt) {
			t.Errorf("turn %d: %v: %q learns %q, want %q after %q", i, err, tok.Decode(tokens, false), got, want, tok.Decode(prompt, false))
		}
	}
}

func TestMaskEndsWithTheTurn(t *testing.T) {
	tok := loadTokenizer(t)
	r := newRenderer(t, tok, ChatML, nil)
	messages := []trinity.Message{
		{Role: "user", Content: "a"}, {Role: "assistant", Content: "A 👋🏽"},
		{Role: "user", Content: "b"}, {Role: "assistant", Content: "👋B"},
	}
	tokens, mask, err := r.RenderTraining(messages, nil, allOf(messages))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := masked(tok, tokens, mask), []string{"A 👋🏽<|im_end|>", "👋B<|im_end|>"}; !slices.Equal(got, want) {
		t.Errorf("masked %q, want %q", got, want)
	}
	prompt, err := r.Render(messages[:3], nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(tokens[:len(prompt)], prompt) || mask[len(prompt)-1] || !mask[len(prompt)] {
		t.Error("the last turn does not begin where its prompt ends")
	}
}

func TestToolCallArgumentsMayBeText(t *testing.T) {
	tok := loadTokenizer(t)
	r := newRenderer(t, tok, templateSource(t, "qwen25"), nil)
	var texts []string
	for _, arguments := range []string{`{"b": 1, "a": [2, null]}`, `"{\"b\": 1, \"a\": [2, null]}"`} {
		tokens, err := r.Render([]trinity.Message{
			{Role: "user", Content: "q"},
			{Role: "assistant", ToolCalls: json.RawMessage(`[{"type":"function","function":{"name":"f","arguments":` + arguments + `}}]`)},
		}, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, tok.Decode(tokens, false))
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], `"arguments": {"b": 1, "a": [2, null]}`) {
		t.Errorf("arguments as an object and as text differ: %q", texts)
	}
}

func TestPlainTextNeedsNoTemplate(t *testing.T) {
	tok := loadTokenizer(t)
	r, err := New(tok, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Decode(r.Encode("one<|im_end|> and two")); got != "one and two" {
		t.Errorf("decoded %q", got)
	}
	if got := r.StopTokens(); !slices.Equal(got, []int32{tok.EOS()}) {
		t.Errorf("stop tokens %v, want the EOS %d", got, tok.EOS())
	}
}

func TestErrorsNameTheCause(t *testing.T) {
	tok := loadTokenizer(t)
	user := []trinity.Message{{Role: "user", Content: "q"}}
	for _, c := range []struct {
		what, template string
		messages       []trinity.Message
		tools          string
		want           string
	}{
		{"no template", "", user, "", "no chat template: set model.chat_template_path"},
		{"no messages", ChatML, nil, "", "at least one message"},
		{"bad tools", ChatML, user, "{", "tools"},
		{"tools that are no list", ChatML, user, "{}", "expected a JSON array"},
		{"bad tool calls", ChatML, []trinity.Message{{Role: "assistant", ToolCalls: json.RawMessage(`[1`)}}, "", "messages[0]: tool_calls"},
		{"template's own error", "{{ raise_exception('no users') }}", user, "", "line 1: the template says: no users"},
	} {
		r, err := New(tok, Options{Template: c.template})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if _, err = r.Render(c.messages, json.RawMessage(c.tools), true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.what, err, c.want)
		}
	}
	r, _ := New(tok, Options{Template: "{{ raise_exception('no users') }}"})
	_, err := r.Render(user, nil, true)
	var e *jinja.Error
	if !errors.As(err, &e) || e.Kind != jinja.Raised || e.Msg != "no users" {
		t.Errorf("raise_exception gives %#v, want a *jinja.Error of kind Raised", err)
	}
	if _, err := New(tok, Options{Template: "{% if %}"}); err == nil {
		t.Error("a broken template is accepted")
	}
	if _, err := New(tok, Options{Kwargs: map[string]any{"f": func() {}}}); err == nil {
		t.Error("an argument that no template can take is accepted")
	}
	if _, _, err := newRenderer(t, tok, ChatML, nil).RenderTraining(user, nil, allOf(user)); err == nil {
		t.Error("a chat without an assistant has a mask")
	}
}
