package trinity

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// ReadChat returns the messages in a value of a row: a list of objects with role and content, or such a
// list as JSON text, which tables have. It returns nil for any other value. Errors name the column.
func ReadChat(column string, v any) (chat []Message, err error) { return readChat(column, v, false) }

// ReadChat is [ReadChat] for a value of the task's row. If the row has images, a part of type image is where the next one
// belongs, as <image> is in a text.
func (t *Task) ReadChat(column string, v any) (chat []Message, err error) {
	return readChat(column, v, t.Format.ImageKey != "")
}

func readChat(column string, v any, images bool) (chat []Message, err error) {
	if text, isText := v.(string); isText {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "[{'role':") || strings.HasPrefix(text, "[{'content':") {
			return nil, fmt.Errorf("column %q has a list of messages in Python's notation, with ' in place of \": save the column as JSON", column)
		}
		if text == "" || text[0] != '[' || d.Decode(&v) != nil {
			return nil, nil
		}
		if _, err := d.Token(); err != io.EOF { // text follows
			return nil, nil
		}
	}
	list, _ := v.([]any)
	for i, entry := range list {
		fields, isObject := entry.(map[string]any)
		if i == 0 && fields["role"] == nil {
			return nil, nil
		}
		if !isObject {
			return nil, fmt.Errorf("%s[%d]: a message is an object with role and content, got %s", column, i, kindOf(entry))
		}
		if images {
			fields = markImages(fields)
		}
		m, err := messageOf(fields)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", column, i, err)
		}
		chat = append(chat, m)
	}
	return chat, nil
}

// messageOf decodes a message. Columnar files give every message every key: null is none.
func messageOf(fields map[string]any) (m Message, err error) {
	fields = maps.Clone(fields)
	maps.DeleteFunc(fields, func(key string, v any) bool { return v == nil && key != contentKey })
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, err
	}
	var calls string // tables have them as JSON text
	if json.Unmarshal(m.ToolCalls, &calls) == nil {
		if !json.Valid([]byte(calls)) {
			return m, fmt.Errorf("tool_calls is text that is no JSON: %.40q", calls)
		}
		m.ToolCalls = json.RawMessage(calls)
	}
	if role, foreign := foreignRoles[strings.ToLower(m.Role)]; foreign && role != m.Role {
		return m, fmt.Errorf("role %q is another format's name of %q: rename it", m.Role, role)
	}
	if _, noText := m.Extra[contentKey]; noText && m.Content == "" && needsContent(&m) {
		return m, fmt.Errorf("a message of the %s has no content: want text", m.Role)
	}
	return m, nil
}

// needsContent reports whether a message says nothing without a content. One of the assistant may have calls of
// tools, reasoning, or keys of its model, such as tool_plan.
func needsContent(m *Message) bool {
	bare := m.Reasoning == "" && len(m.ToolCalls) == 0 && len(m.Extra) == 1
	return m.Role == "user" || m.Role == "system" || m.Role == "assistant" && bare
}

// foreignRoles has the roles that go by other names in formats of chats that people have. A template
// that writes any role would write them too, and the model has never read them.
var foreignRoles = map[string]string{
	"system": "system", "user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "chatgpt": "assistant",
	"bot": "assistant", "ai": "assistant", "model": "assistant", "tool": "tool",
}

// chat returns the row's own chat: the list of messages at format.prompt_key or, if the row has no
// such column, at format.messages_key. It returns nil if the question is a text. A list of other
// things is an error, as is a chat that ends with a reply of the assistant.
func (t *Task) chat() ([]Message, error) {
	if t.Format.PromptTemplate != "" {
		return nil, nil
	}
	key, at := t.Format.PromptKey, "format.prompt_key"
	v, _ := t.Field(key)
	asked := v
	if v == nil {
		key, at = t.Format.MessagesKey, "format.messages_key"
		asked, _ = t.Field(key)
	}
	chat, err := t.ReadChat(key, asked)
	switch v.(type) {
	case []any, map[string]any:
		if chat == nil && err == nil {
			err = fmt.Errorf("column %q holds %s, want a text or a list of messages with role and content", key, kindOf(v))
		}
	}
	if len(chat) > 0 && chat[len(chat)-1].Role == "assistant" {
		err = fmt.Errorf("column %q ends with a reply of the assistant: let a message of the user or of a tool be the last", key)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return chat, nil
}

// Prompt returns the task's question: format.prompt_template with the row's columns, else the text
// at format.prompt_key, or the user's message if that is a chat of one. A chat of several messages is
// an error: [Task.Messages] returns them.
func (t *Task) Prompt() (string, error) {
	if t.Format.PromptTemplate != "" {
		return t.fill("prompt_template", t.Format.PromptTemplate)
	}
	chat, err := t.chat()
	if err != nil {
		return "", err
	}
	if chat == nil {
		text, err := t.Text(t.Format.PromptKey)
		if err != nil {
			return "", fmt.Errorf("format.prompt_key: %w", err)
		}
		return text, nil
	}
	if len(chat) != 1 || chat[0].Role != "user" {
		return "", errors.New("format.prompt_key: the row's chat has more than one message of the user, and the workflow asks one " +
			"question in words of its own: use another workflow, or name a column with the question")
	}
	return chat[0].Content, nil
}

// System returns the system prompt of rows without a chat that has its own: format.system_template with
// the row's columns, else the text at format.system_prompt_key, else the taskset's, else "".
func (t *Task) System() (string, error) {
	if t.Format.SystemTemplate != "" {
		return t.fill("system_template", t.Format.SystemTemplate)
	}
	if s, err := t.Text(t.Format.SystemPromptKey); err == nil {
		return s, nil
	}
	return t.Format.SystemPrompt, nil
}

// Messages returns the chat that asks the task's question: the row's own chat, or else the user's
// message. It begins with a system message: the chat's own, else with the task's system prompt, else
// with the given one, unless all are "". [ShowImages] puts the task's images into it.
func (t *Task) Messages(system string) (messages []Message, err error) {
	chat, err := t.chat()
	if err != nil {
		return nil, err
	}
	if chat == nil {
		question, err := t.Prompt()
		if err != nil {
			return nil, err
		}
		chat = []Message{{Role: "user", Content: question}}
	}
	if t.Images != nil {
		if chat, err = ShowImages(chat, t.Images); err != nil {
			return nil, err
		}
	}
	own, err := t.System()
	if err != nil {
		return nil, err
	}
	if system = cmp.Or(own, system); system != "" && chat[0].Role != "system" {
		messages = append(messages, Message{Role: "system", Content: system})
	}
	return append(messages, chat...), nil
}

// Tools returns the schemas of the tools that the row offers, a list given as such or as JSON text;
// nil if it offers none.
func (t *Task) Tools() (json.RawMessage, error) {
	v, ok := t.Field(t.Format.ToolsKey)
	if !ok || v == nil || v == "" {
		return nil, nil
	}
	text, err := textOf(v)
	if err != nil {
		return nil, fmt.Errorf("format.tools_key: column %q: %w", t.Format.ToolsKey, err)
	}
	var tools []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &tools); err != nil {
		return nil, fmt.Errorf("format.tools_key: column %q holds %s, want a list of schemas of tools, or JSON text of one",
			t.Format.ToolsKey, kindOf(v))
	}
	if len(tools) == 0 {
		return nil, nil
	}
	return json.RawMessage(text), nil
}
