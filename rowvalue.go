package trinity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// textOf returns a value of a row as text: numbers with the digits of the file, lists and objects as
// JSON, null as nothing. A number that JSON cannot write, such as NaN, is an error.
func textOf(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a model reads < and & as they are
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// kindOf returns the kind of a value of a row, for errors.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// wholeNumbers returns v with whole numbers as such, so that 3.0 can be decoded into an int. It
// changes nothing in v.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, x := range v {
			out[key] = wholeNumbers(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = wholeNumbers(x)
		}
		return out
	case json.Number:
		const exact = 1 << 53 // above it, neighbouring whole numbers are one float64
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) <= exact {
			return int64(f)
		}
	}
	return v
}

// Truths returns the reference answers, of which each is right: the elements of a list at
// format.response_key, else the one value there, as text. A list with one message of the assistant is
// that reply. Truths returns nil if the row has none, and an error if a truth is no text or number.
func (t *Task) Truths() ([]string, error) {
	key := t.Format.ResponseKey
	v, _ := t.Field(key)
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	switch fields, isObject := v.(map[string]any); {
	case v == nil:
		return nil, nil
	case isList && len(list) == 0:
		return nil, fmt.Errorf("format.response_key: the list in column %q is empty", key)
	case isObject && len(fields) == 0:
		return nil, fmt.Errorf("format.response_key: column %q holds an empty object", key)
	case isObject:
		keys := slices.Sorted(maps.Keys(fields))
		return nil, fmt.Errorf("format.response_key: column %q holds an object with the keys %s: name one of them, such as %q",
			key, strings.Join(keys, ", "), key+"."+keys[0])
	}
	if reply, err := ReadChat(key, v); err == nil && len(reply) == 1 && reply[0].Role == "assistant" {
		return []string{reply[0].Content}, nil
	}
	var truths []string
	for _, v := range list {
		switch v.(type) {
		case []any, map[string]any, nil:
			return nil, fmt.Errorf("format.response_key: the list in column %q holds %s, want texts or numbers, of which any is right",
				key, kindOf(v))
		}
		text, err := textOf(v)
		if err != nil {
			return nil, fmt.Errorf("format.response_key: column %q: %w", key, err)
		}
		truths = append(truths, text)
	}
	return truths, nil
}
