package renderer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/model/toolcall"
)

// thinking is how replies mark what the model thinks.
type thinking struct {
	marks
	parsed bool // it is read apart from the content: a parser does, or the template writes it so
	marked bool // it stands between the marks: the template has them, or a parser says so
	opens  bool // prompts open the thinking of the reply
}

// marks stand around the thinking in replies. Space stands inside them, and twice after them.
type marks struct{ open, close, space string }

// knownMarks are those of Qwen3, DeepSeek-R1 and most others, and those of Mistral.
var knownMarks = []marks{{"<think>", "</think>", "\n"}, {"[THINK]", "[/THINK]", ""}}

// thinkingOf returns the thinking with the marks of a parser, or those that a template writes, or else the
// first.
func thinkingOf(template, parser string) thinking {
	think, bracket := knownMarks[0], knownMarks[1]
	switch parser {
	case "deepseek_r1", "qwen3":
		return thinking{marks: think, parsed: true, marked: true}
	case "mistral":
		return thinking{marks: bracket, parsed: true, marked: true}
	}
	m := think
	if !strings.Contains(template, think.close) && strings.Contains(template, bracket.close) {
		m = bracket
	}
	marked := parser != toolcall.None && strings.Contains(template, m.close)
	return thinking{marks: m, marked: marked, parsed: marked || parser != toolcall.None && strings.Contains(template, "reasoning_content")}
}

// opensThinking reports whether prompts end with the tag that opens the thinking, as DeepSeek-R1's do.
func (r *Renderer) opensThinking() bool {
	prompt, err := r.Render([]trinity.Message{{Role: "user", Content: "question"}}, nil, true)
	return err == nil && strings.HasSuffix(strings.TrimSpace(r.tok.Decode(prompt, false)), r.thinking.open)
}

// Read reads a reply: what it thought, what it says, and which tools it calls. A reply that ends before
// its thinking does has no content. If the prompt opens the thinking, the reply has only the closing
// tag. An error says why a call cannot be read; the message then has the reply's text as it is.
func (r *Renderer) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	thought, text, _ := r.thinking.split(r.tok.Decode(r.unended(tokens), false))
	content, calls, err := r.calls.Parse(text, tools)
	if len(calls) > 1 && r.oneCall {
		err = fmt.Errorf("the reply has %d calls, and the model's chat template knows one a reply", len(calls))
	}
	if err != nil {
		content, calls = text, nil
	}
	m := r.message(thought, content, r.hidden(tokens))
	if len(calls) > 0 && m.Content == "" && r.forms.nullCalls {
		m.Extra = map[string]json.RawMessage{"content": json.RawMessage("null")} // the template drops the calls of ""
	}
	return m, calls, err
}

// ReadText reads a reply to a prompt without tools: what looks like a call is text.
func (r *Renderer) ReadText(tokens []int32) trinity.Message {
	thought, text, _ := r.thinking.split(r.tok.Decode(r.unended(tokens), false))
	return r.message(thought, text, r.hidden(tokens))
}

// Settled returns the part of a reply that no later token changes. tokens are the reply's first ones.
func (r *Renderer) Settled(tokens []int32, tools json.RawMessage) trinity.Message {
	text := r.tok.Decode(r.unended(tokens), false)
	for strings.HasSuffix(text, "\uFFFD") { // perhaps the beginning of a character
		text = text[:len(text)-utf8.RuneLen(utf8.RuneError)]
	}
	if begun := strings.TrimLeftFunc(text, unicode.IsSpace); r.thinking.parsed && len(begun) < len(r.thinking.open) &&
		strings.HasPrefix(r.thinking.open, begun) {
		return trinity.Message{Role: "assistant"}
	}
	thought, content, closed := r.thinking.split(text)
	if !closed {
		thought, _, _ = r.thinking.split(text[:len(text)-partialLen(text, r.thinking.close)])
	}
	if len(tools) > 0 {
		content = r.calls.Settled(content)
	}
	return r.message(thought, content, r.hidden(tokens))
}

// unended returns a reply without the token that ends it.
func (r *Renderer) unended(tokens []int32) []int32 {
	if n := len(tokens); n > 0 && slices.Contains(r.stop, tokens[n-1]) {
		return tokens[:n-1]
	}
	return tokens
}

// split splits the text of a reply into its thinking and the rest. isClosed is false if more text
// belongs to the thinking.
func (t *thinking) split(text string) (thought, rest string, isClosed bool) {
	if !t.parsed || !t.opens && !strings.HasPrefix(strings.TrimLeftFunc(text, unicode.IsSpace), t.open) {
		return "", text, true
	}
	thought, rest, isClosed = strings.Cut(text, t.close)
	thought = strings.Trim(strings.TrimPrefix(strings.TrimSpace(thought), t.open), "\n")
	return thought, strings.TrimLeft(rest, "\n"), isClosed
}

// message returns the message of a reply without special tokens.
func (r *Renderer) message(thought, content string, hidden []string) trinity.Message {
	for _, special := range hidden {
		thought, content = strings.ReplaceAll(thought, special, ""), strings.ReplaceAll(content, special, "")
	}
	return trinity.Message{Role: "assistant", Reasoning: thought, Content: content}
}

// hidden returns the texts of the special tokens in a reply.
func (r *Renderer) hidden(tokens []int32) (texts []string) {
	for _, id := range r.unended(tokens) {
		text := r.tok.Token(id)
		if text != "" && !slices.Contains(texts, text) && r.tok.Decode([]int32{id}, true) == "" && r.tok.Decode([]int32{id}, false) != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// partialLen returns the length of the longest end of text that mark begins with.
func partialLen(text, mark string) int {
	for n := min(len(mark)-1, len(text)); n > 0; n-- {
		if strings.HasSuffix(text, mark[:n]) {
			return n
		}
	}
	return 0
}
