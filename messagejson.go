package trinity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reasoningKeys are the names of a message's reasoning: of DeepSeek and Qwen, of newer servers, and of
// gpt-oss. A message is written with the first.
var reasoningKeys = []string{"reasoning_content", "reasoning", "thinking"}

// contentKey is the key of a content. [Message].Extra has it too.
const contentKey = "content"

// UnmarshalJSON reads a message with all its keys. Its content is a text, null, or a list of parts of
// type text or thinking, or of type image as MarshalJSON writes it. Parts of another type, a message
// without a role, and several names of the reasoning with different texts are errors.
func (m *Message) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("a message is %s: want an object with role and content", kindOfJSON(data))
	}
	*m = Message{}
	for key, to := range map[string]*string{"role": &m.Role, "tool_call_id": &m.ToolCallID, "name": &m.Name} {
		if err := takeText(fields, key, to); err != nil {
			return err
		}
	}
	if m.Role == "" {
		return fmt.Errorf(`a message has no "role": want an object with role and content`)
	}
	if calls := fields["tool_calls"]; !isNull(calls) {
		m.ToolCalls = calls
	}
	delete(fields, "tool_calls")
	if err := m.readContent(fields); err != nil {
		return err
	}
	for _, key := range reasoningKeys {
		if err := m.readReasoning(fields, key); err != nil {
			return err
		}
	}
	maps.DeleteFunc(fields, func(key string, v json.RawMessage) bool { return key != contentKey && isNull(v) })
	if len(fields) > 0 {
		m.Extra = fields
	}
	return nil
}

// takeText removes a key of a message, and stores its text. No key and null leave it as it is.
func takeText(fields map[string]json.RawMessage, key string, dst *string) error {
	raw := fields[key]
	delete(fields, key)
	if isNull(raw) {
		return nil
	}
	if err := json.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%q of a message is %s: want text", key, kindOfJSON(raw))
	}
	return nil
}

// readContent reads the content of a message. A content that is no text stays in its fields.
func (m *Message) readContent(fields map[string]json.RawMessage) error {
	raw, ok := fields[contentKey]
	switch {
	case !ok:
		fields[contentKey] = nil
		return nil
	case raw[0] == '[':
		err := m.readParts(raw)
		if m.Parts != nil {
			delete(fields, contentKey)
		}
		return err
	case isNull(raw):
		return nil
	}
	return takeText(fields, contentKey, &m.Content)
}

// readParts reads a content in parts: the texts into Content, the thinking into Reasoning.
func (m *Message) readParts(raw json.RawMessage) error {
	var parts []struct {
		Type, Text *string
		Image      string
		Thinking   json.RawMessage
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return errors.New(`a part of the content is no object with the keys "type" and "text"`)
	}
	var text, thinking strings.Builder
	var all []Part
	for _, p := range parts {
		switch kind := p.Type; {
		case kind != nil && *kind == "thinking":
			thought, err := textOfThinking(p.Thinking)
			if err != nil {
				return err
			}
			thinking.WriteString(thought)
		case kind != nil && *kind == "image" && isDigest(p.Image):
			all = append(all, Part{Image: p.Image})
		case kind != nil && *kind != "text":
			return fmt.Errorf("a message has a part of type %q: want text", *kind)
		case p.Text == nil:
			return fmt.Errorf(`a part of the content has no "text"`)
		default:
			text.WriteString(*p.Text)
			all = append(all, Part{Text: *p.Text})
		}
	}
	m.Content, m.Reasoning = text.String(), thinking.String()
	if slices.ContainsFunc(all, func(p Part) bool { return p.Image != "" }) {
		m.Parts = all
	}
	return nil
}

// isDigest reports whether a text is a digest of a canonical image.
func isDigest(text string) bool {
	sum, ok := strings.CutPrefix(text, "sha256:")
	return ok && len(sum) == 64 && strings.Trim(sum, "0123456789abcdef") == ""
}

// partsJSON returns the entries of a content in JSON.
func partsJSON(parts []Part) []map[string]string {
	entries := make([]map[string]string, len(parts))
	for i, p := range parts {
		if entries[i] = map[string]string{"type": "text", "text": p.Text}; p.Image != "" {
			entries[i] = map[string]string{"type": "image", "image": p.Image}
		}
	}
	return entries
}

// textOfThinking reads the thinking of a part: a text, or Mistral's list of parts of type text.
func textOfThinking(raw json.RawMessage) (text string, err error) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var inner Message
	if len(raw) == 0 || raw[0] != '[' || inner.readParts(raw) != nil || inner.Reasoning != "" {
		return "", fmt.Errorf("a part of type thinking has %s as its thinking: want text", kindOfJSON(raw))
	}
	return inner.Content, nil
}

// readReasoning reads the reasoning at one of its names.
func (m *Message) readReasoning(fields map[string]json.RawMessage, key string) error {
	var text string
	if err := takeText(fields, key, &text); err != nil || text == "" {
		return err
	}
	if m.Reasoning != "" && m.Reasoning != text {
		return fmt.Errorf("%q of a message differs from its other reasoning: %s and parts of type thinking are names of one text",
			key, strings.Join(reasoningKeys, ", "))
	}
	m.Reasoning = text
	return nil
}

// MarshalJSON writes a message with the keys and the form of content that were read.
func (m Message) MarshalJSON() ([]byte, error) {
	type plain Message
	out := struct {
		Role    string           `json:"role"`
		Content *json.RawMessage `json:"content,omitempty"`
		plain
	}{Role: m.Role, plain: plain(m)}
	content, hasForm := m.Extra[contentKey]
	if !hasForm {
		var form any = m.Content
		var err error
		if m.Parts != nil {
			parts, err := m.ContentParts()
			if err != nil {
				return nil, err
			}
			form = partsJSON(parts)
		}
		if content, err = marshalPlain(form); err != nil {
			return nil, err
		}
	}
	if content != nil {
		out.Content = &content
	}
	text, err := marshalPlain(out)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		if key == contentKey {
			continue
		}
		member, err := marshalPlain(map[string]json.RawMessage{key: m.Extra[key]})
		if err != nil {
			return nil, err
		}
		text = append(append(text[:len(text)-1], ','), member[1:]...)
	}
	return text, nil
}

// marshalPlain returns the JSON of a value. Who encodes the whole decides whether < is escaped.
func marshalPlain(v any) (json.RawMessage, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// kindOfJSON returns the kind of a JSON value, for errors.
func kindOfJSON(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	switch {
	case isNull(raw):
		return "null"
	case raw[0] == '"':
		return "text"
	case raw[0] == '[':
		return "a list"
	case raw[0] == '{':
		return "an object"
	case raw[0] == 't', raw[0] == 'f':
		return "a boolean"
	}
	return "a number"
}
