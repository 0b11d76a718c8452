package trinity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
)

// chatIn returns the list of messages in a value of a row: a list of objects with roles, or such a
// list as JSON text, which tables have. ok is false for any other value.
func chatIn(v any) (chat []any, ok bool) {
	if text, isText := v.(string); isText {
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.UseNumber()
		if text == "" || text[0] != '[' || d.Decode(&v) != nil {
			return nil, false
		}
		if _, err := d.Token(); err != io.EOF { // text follows
			return nil, false
		}
	}
	chat, _ = v.([]any)
	for _, m := range chat {
		fields, _ := m.(map[string]any)
		if role, isText := fields["role"].(string); !isText || role == "" {
			return nil, false
		}
	}
	return chat, len(chat) > 0
}

// messagesOf decodes a list of messages. Columnar files give every message every key: null is none.
func messagesOf(chat []any) (messages []Message, err error) {
	for i, m := range chat {
		fields := maps.Clone(m.(map[string]any))
		maps.DeleteFunc(fields, func(key string, v any) bool { return v == nil && key != "content" })
		text, err := json.Marshal(fields)
		var message Message
		if err == nil {
			err = json.Unmarshal(text, &message)
		}
		var calls string // tables have them as JSON text
		if json.Unmarshal(message.ToolCalls, &calls) == nil && json.Valid([]byte(calls)) {
			message.ToolCalls = json.RawMessage(calls)
		}
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		messages = append(messages, message)
	}
	return messages, nil
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
	chat, isChat := chatIn(v)
	if v == nil {
		key, at = t.Format.MessagesKey, "format.messages_key"
		other, _ := t.Field(key)
		chat, isChat = chatIn(other)
	}
	if !isChat {
		switch v.(type) {
		case []any, map[string]any:
			return nil, fmt.Errorf("%s: column %q holds %s, want a text or a list of messages with role and content", at, key, kindOf(v))
		}
		return nil, nil
	}
	messages, err := messagesOf(chat)
	if err == nil && messages[len(messages)-1].Role == "assistant" {
		err = errors.New("it ends with a reply of the assistant: let a message of the user or of a tool be the last")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the chat in column %q: %w", at, key, err)
	}
	return messages, nil
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
// with the given one, unless all are "".
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
