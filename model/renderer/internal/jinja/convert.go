package jinja

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// FromJSON decodes one JSON text; objects keep the order of their keys.
func FromJSON(data []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeJSON(d, 0)
	if err != nil {
		return nil, fmt.Errorf("JSON value for a template: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("JSON value for a template: text after the value at byte %d", d.InputOffset())
	}
	return v, nil
}

func decodeJSON(d *json.Decoder, depth int) (Value, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	if depth > maxValueDepth {
		return nil, tooDeep()
	}
	switch t := t.(type) {
	case json.Number:
		return number(string(t))
	case json.Delim:
		if t == '[' {
			list := &List{}
			for d.More() {
				v, err := decodeJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				list.Items = append(list.Items, v)
			}
			_, err = d.Token()
			return list, err
		}
		m := &Map{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			m.Set(key.(string), v)
		}
		_, err = d.Token()
		return m, err
	}
	return t, nil // nil, bool, string
}

// number reads a JSON number as Python does: without fraction and exponent it is an integer of any
// size.
func number(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, as in Python
		return f, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	if len(s) > 4300 { // Python's own bound
		return nil, fmt.Errorf("an integer of %d digits", len(s))
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("bad number %.20q", s)
	}
	return n, nil
}

// FromGo converts a Go value: nil, booleans, integers, floats, strings, []any, map[string]any
// (whose keys are sorted, as Go keeps no order), json.RawMessage, and values of this package, which
// it returns as they are. Text that is not UTF-8 has its bad bytes replaced by U+FFFD.
func FromGo(v any) (Value, error) { return fromGo(v, 0) }

func fromGo(v any, depth int) (Value, error) {
	if depth > maxValueDepth {
		return nil, tooDeep()
	}
	switch x := v.(type) {
	case nil, bool, int64, float64, *big.Int, *List, *Tuple, *Map:
		return x, nil
	case string:
		return strings.ToValidUTF8(x, "\uFFFD"), nil
	case int:
		return int64(x), nil
	case int32:
		return int64(x), nil
	case float32:
		return float64(x), nil
	case json.Number:
		return number(string(x))
	case json.RawMessage:
		return FromJSON(x)
	case []string:
		list := &List{}
		for _, s := range x {
			list.Items = append(list.Items, strings.ToValidUTF8(s, "\uFFFD"))
		}
		return list, nil
	case []any:
		list := &List{}
		for _, item := range x {
			c, err := fromGo(item, depth+1)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, c)
		}
		return list, nil
	case map[string]any:
		return fromGoMap(x, depth)
	}
	return nil, fmt.Errorf("a template cannot take a value of Go type %T", v)
}

func fromGoMap(x map[string]any, depth int) (Value, error) {
	m := &Map{}
	for _, k := range slices.Sorted(maps.Keys(x)) {
		c, err := fromGo(x[k], depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(strings.ToValidUTF8(k, "\uFFFD"), c)
	}
	return m, nil
}
