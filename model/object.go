package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// object reads typed values out of a decoded JSON object; null counts as missing. Errors collect in
// errs.
type object struct {
	raw  map[string]any
	path string // prefix of keys in messages
	errs []error
}

// mostShown bounds what an error shows of a list or an object, in bytes.
const mostShown = 100

// fail adds an error, which shows lists and objects as the file spells them.
func (o *object) fail(format string, args ...any) {
	for i, arg := range args {
		switch arg.(type) {
		case nil, []any, map[string]any:
			text, _ := json.Marshal(arg) // the file's JSON has become arg
			if args[i] = string(text); len(text) > mostShown {
				args[i] = fmt.Sprintf("%.*s…", mostShown, text)
			}
		}
	}
	o.errs = append(o.errs, fmt.Errorf(o.path+format, args...))
}

// together joins errs into an error of one line. It returns nil if all of them are nil.
func together(errs []error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if texts == nil {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

func (o *object) integer(key string, missing int) int {
	value := o.raw[key]
	if value == nil {
		return missing
	}
	n, ok := asInteger(value)
	if !ok {
		o.fail("%s is %v; expected an integer", key, value)
		return missing
	}
	return n
}

// asInteger accepts 4096 and, as Python writes some of them, 4096.0.
func asInteger(value any) (int, bool) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(number.String(), 10, 64); err == nil {
		return int(n), int64(int(n)) == n
	}
	f, err := number.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int(f), true
}

func (o *object) number(key string, missing float64) float64 {
	value := o.raw[key]
	if value == nil {
		return missing
	}
	number, ok := value.(json.Number)
	f, err := number.Float64()
	if !ok || err != nil {
		o.fail("%s is %v; expected a number", key, value)
		return missing
	}
	return f
}

func (o *object) flag(key string, missing bool) bool {
	value := o.raw[key]
	if value == nil {
		return missing
	}
	b, ok := value.(bool)
	if !ok {
		o.fail("%s is %v; expected true or false", key, value)
	}
	return b
}

func (o *object) text(key, missing string) string {
	value := o.raw[key]
	if value == nil {
		return missing
	}
	s, ok := value.(string)
	if !ok {
		o.fail("%s is %v; expected a string", key, value)
		return missing
	}
	return s
}

// tokens reads a token id or a list of them.
func (o *object) tokens(key string) []int32 {
	value := o.raw[key]
	if value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	ids := make([]int32, 0, len(list))
	for _, item := range list {
		id, ok := asInteger(item)
		if ok && id == -1 && len(list) == 1 {
			return nil // written by some tools for "none"
		}
		if !ok || id < 0 || id > maxDimension {
			o.fail("%s is %v; expected token ids", key, value)
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}
