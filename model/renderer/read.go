package renderer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trinity-go/trinity"
)

// Thinking stands between these tags in the replies of Qwen3, DeepSeek-R1 and others.
const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// writesThinking reports whether a template writes thinking apart from the content. With any other
// template the tags are part of the content, unless [Options].ReadThinking says otherwise.
func writesThinking(template string) bool {
	return strings.Contains(template, thinkClose) || strings.Contains(template, "reasoning_content")
}

// Read reads a reply: what it thought, what it says, and which tools it calls. A reply whose prompt
// opened its thinking has only the closing tag. An error says why a call cannot be read; the message
// then has the reply's text as it is.
func (r *Renderer) Read(tokens []int32, tools json.RawMessage) (trinity.Message, []trinity.ToolCall, error) {
	m := trinity.Message{Role: "assistant"}
	if n := len(tokens); n > 0 && slices.Contains(r.stop, tokens[n-1]) {
		tokens = tokens[:n-1]
	}
	text := r.tok.Decode(tokens, false)
	if thought, rest, ok := strings.Cut(text, thinkClose); ok && r.thinks {
		m.Reasoning = strings.Trim(strings.TrimPrefix(strings.TrimSpace(thought), thinkOpen), "\n")
		text = strings.TrimLeft(rest, "\n")
	}
	content, calls, err := r.calls.Parse(text, tools)
	if len(calls) > 1 && r.oneCall {
		err = fmt.Errorf("the reply has %d calls, and the model's chat template knows one a reply", len(calls))
	}
	if err != nil {
		content, calls = text, nil
	}
	for _, id := range tokens {
		if special := r.tok.Token(id); special != "" && r.tok.Decode([]int32{id}, true) == "" && r.tok.Decode([]int32{id}, false) != "" {
			content = strings.ReplaceAll(content, special, "")
			m.Reasoning = strings.ReplaceAll(m.Reasoning, special, "")
		}
	}
	m.Content = content
	return m, calls, err
}
