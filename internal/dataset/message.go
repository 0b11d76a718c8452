package dataset

import (
	"encoding/json"
	"fmt"

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
	chat, err := row.ReadChat(key, v)
	if chat != nil || err != nil {
		return chat, err
	}
	switch v := v.(type) {
	case string:
		return nil, fmt.Errorf("%s is text, want a list of messages: set format.prompt_type: plaintext for prompts and responses "+
			"that are text", key)
	case []any:
		if len(v) == 0 {
			return nil, fmt.Errorf("%s is an empty list, want messages", key)
		}
		return nil, fmt.Errorf("%s[0] is no message: want an object with role and content", key)
	}
	return nil, fmt.Errorf("%s holds %s, want a list of messages", key, kindOfValue(v))
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
