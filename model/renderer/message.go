package renderer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/model/renderer/internal/jinja"
)

// messageValue returns the mapping that templates see: the non-empty keys of the message's JSON
// form, and as in transformers the reasoning also under its older name "thinking".
func messageValue(m trinity.Message) (jinja.Value, error) {
	v := &jinja.Map{}
	set := func(key, text string) { v.Set(key, strings.ToValidUTF8(text, "\uFFFD")) }
	if m.Reasoning != "" {
		set("thinking", m.Reasoning)
	}
	set("role", m.Role)
	set("content", m.Content)
	if m.Reasoning != "" {
		set("reasoning_content", m.Reasoning)
	}
	if !isAbsent(m.ToolCalls) {
		calls, err := jinja.FromJSON(m.ToolCalls)
		if err != nil {
			return nil, fmt.Errorf("tool_calls: %w", err)
		}
		list, ok := calls.(*jinja.List)
		if !ok {
			return nil, fmt.Errorf("tool_calls: expected a JSON array")
		}
		for _, call := range list.Items {
			parseArguments(call)
		}
		v.Set("tool_calls", list)
	}
	if m.ToolCallID != "" {
		set("tool_call_id", m.ToolCallID)
	}
	if m.Name != "" {
		set("name", m.Name)
	}
	return v, nil
}

// parseArguments decodes the arguments of a call if they are JSON text, as in OpenAI's API. Chat
// templates expect an object and would quote the text a second time.
func parseArguments(call jinja.Value) {
	m, ok := call.(*jinja.Map)
	if !ok {
		return
	}
	if function, ok := m.Get("function"); ok {
		if m, ok = function.(*jinja.Map); !ok {
			return
		}
	}
	text, _ := m.Get("arguments")
	s, ok := text.(string)
	if !ok {
		return
	}
	if v, err := jinja.FromJSON([]byte(s)); err == nil {
		if object, ok := v.(*jinja.Map); ok {
			m.Set("arguments", object)
		}
	}
}

func isAbsent(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}
