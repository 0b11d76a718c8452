package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// openJSON reads an array of objects, an object that has such an array under "data", or JSON Lines, which many a .json file is.
func openJSON(path string, opts Options) (shard, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return readJSON(path, text, opts)
}

func readJSON(path string, text []byte, opts Options) (shard, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	dec := json.NewDecoder(bytes.NewReader(text))
	var first json.RawMessage
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		return &memory{path: path}, nil
	} else if err != nil {
		return nil, fmt.Errorf("%s:%d: not JSON: %w", path, lineOf(text, offsetOf(err, dec)), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return readLines(path, bytes.NewReader(text), opts)
	}
	begin := int(dec.InputOffset()) - len(first)
	switch {
	case first[0] == '[':
		return readArray(path, text, begin)
	case first[0] == '{':
		if at, ok := dataArray(first); ok {
			return readArray(path, text, begin+at)
		}
		return readLines(path, bytes.NewReader(bytes.ReplaceAll(first, []byte("\n"), []byte(" "))), opts) // one row, written over several lines
	}
	return nil, fmt.Errorf("%s:%d: want an array of objects, {\"data\": [...]} or an object per line", path, lineOf(text, begin))
}

// readLines keeps the JSON Lines of r.
func readLines(path string, r io.Reader, opts Options) (shard, error) {
	return spooled(path, "line", opts, func(s *spool) error {
		err := scanLines(r, func(_ int64, number int, data []byte) error {
			if err := checkRow(data); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
			return s.add(number, data)
		})
		return inFile(path, err)
	})
}

// dataArray finds the array under the key "data" of a JSON object.
func dataArray(object []byte) (begin int, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return 0, false
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, false
		}
		if key == "data" && value[0] == '[' {
			return int(dec.InputOffset()) - len(value), true
		}
	}
	return 0, false
}

// readArray keeps text and indexes the objects of the array that begins at the given byte; text is known to be valid JSON.
func readArray(path string, text []byte, begin int) (shard, error) {
	m := &memory{path: path, text: text}
	dec := json.NewDecoder(bytes.NewReader(text[begin:]))
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	number, counted := 1, 0
	for dec.More() {
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		at := begin + int(dec.InputOffset()) - len(value)
		number += bytes.Count(text[counted:at], []byte("\n"))
		counted = at
		if err := checkRow(value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		m.index = append(m.index, line{begin: int64(at), size: int32(len(value)), number: int32(number)})
	}
	return m, nil
}

// offsetOf is the byte at which decoding failed.
func offsetOf(err error, dec *json.Decoder) int {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return int(syntax.Offset)
	}
	return int(dec.InputOffset())
}

// lineOf is the line, from 1, of a byte of text.
func lineOf(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(offset, len(text))], []byte("\n"))
}
