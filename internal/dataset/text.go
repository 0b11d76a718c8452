package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"unicode/utf8"
)

// checkText returns an error if a text is not UTF-8. JSON, which all rows become, would silently
// have U+FFFD in its place.
func checkText(text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	at := 0
	for {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && size == 1 {
			return fmt.Errorf("the byte 0x%02x is not UTF-8: save the file as UTF-8, for example with iconv -f latin1 -t utf-8", text[at])
		}
		at += size
	}
}

// checkColumns returns an error that names the first column, by name, with text that is not UTF-8.
func checkColumns(row map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if err := checkValue(row[name]); err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
	}
	return nil
}

func checkValue(v any) error {
	switch v := v.(type) {
	case string:
		return checkText(v)
	case json.RawMessage:
		return checkText(string(v))
	case map[string]any:
		return checkColumns(v)
	case []any:
		for _, e := range v {
			if err := checkValue(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkJSON returns the error of checkColumns for a JSON object.
func checkJSON(data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	var row map[string]json.RawMessage
	if err := json.Unmarshal(data, &row); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if err := checkText(string(row[name])); err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
	}
	return checkText(string(data))
}

// checkRegular returns an error for a pipe or a device. Opening a pipe would wait for a writer, and
// rows are read more than once.
func checkRegular(info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file (%s): copy its content to a file", info.Name(), info.Mode())
	}
	return nil
}
