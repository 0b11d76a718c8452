package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/trinity-go/trinity"
)

// promptOf returns the row's plain prompt: the filled template, or else the text at PromptKey.
func promptOf(row *trinity.Task) (string, error) {
	if row.Format.PromptTemplate != "" {
		return row.Prompt()
	}
	return textAt(row, row.Format.PromptKey)
}

// textAt returns the text or number at a key of the row.
func textAt(row *trinity.Task, key string) (string, error) {
	v, err := fieldAt(row, key)
	if err != nil {
		return "", err
	}
	switch v.(type) {
	case string, bool, int64, float64, json.Number:
		return row.Text(key)
	}
	return "", fmt.Errorf("%s holds %s, want text", key, kindOfValue(v))
}

func fieldAt(row *trinity.Task, key string) (any, error) {
	v, ok := row.Field(key)
	if !ok {
		return nil, fmt.Errorf("no field %q: check the keys of `format`", key)
	}
	return v, nil
}

// messagesAt returns the chat at a key of the row: a list of messages, or that list as JSON text.
func messagesAt(row *trinity.Task, key string) ([]trinity.Message, error) {
	v, err := fieldAt(row, key)
	if err != nil {
		return nil, err
	}
	if text, ok := v.(string); ok {
		if v, err = fromText(text); err != nil {
			return nil, fmt.Errorf("%s is text, want a list of messages: set format.prompt_type: plaintext for prompts and responses "+
				"that are text", key)
		}
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s holds %s, want a list of messages", key, kindOfValue(v))
	}
	return Messages(key, list)
}

// Messages returns the messages of the chat at a key of a row.
func Messages(key string, list []any) ([]trinity.Message, error) {
	if len(list) == 0 {
		return nil, fmt.Errorf("%s is an empty list, want messages", key)
	}
	chat := make([]trinity.Message, len(list))
	for i, m := range list {
		var err error
		if chat[i], err = message(m); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
	}
	return chat, nil
}

func message(v any) (m trinity.Message, err error) {
	if _, ok := v.(map[string]any); !ok {
		return m, fmt.Errorf("a message is an object with role and content, got %s", kindOfValue(v))
	}
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, err
	}
	var calls string
	if json.Unmarshal(m.ToolCalls, &calls) == nil { // tables have them as JSON text
		m.ToolCalls, err = asJSON(calls)
	}
	return m, err
}

// asJSON returns the JSON of a value; a string that is JSON is returned as it is.
func asJSON(v any) (json.RawMessage, error) {
	if text, ok := v.(string); ok {
		if !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("text that is no JSON: %.40q", text)
		}
		return json.RawMessage(text), nil
	}
	return json.Marshal(v)
}

func fromText(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("text follows the JSON")
	}
	return numbers(v), nil
}

// kindOfValue returns the name of a value's kind, for errors.
func kindOfValue(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
