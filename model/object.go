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

// quoted returns a text in quotes, which tell "3" from 3, and other values as they are.
func quoted(value any) any {
	if text, ok := value.(string); ok {
		return fmt.Sprintf("%.*q", mostShown, text)
	}
	return value
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

// read returns the value of a key, which as converts. It adds an error if that is not what was expected.
func read[T any](o *object, key string, missing T, expected string, as func(any) (T, bool)) T {
	value := o.raw[key]
	if value == nil {
		return missing
	}
	v, ok := as(value)
	if !ok {
		o.fail("%s is %v; expected "+expected, key, quoted(value))
		return missing
	}
	return v
}

func (o *object) integer(key string, missing int) int {
	return read(o, key, missing, "an integer", asInteger)
}

func (o *object) number(key string, missing float64) float64 {
	return read(o, key, missing, "a number", func(value any) (float64, bool) {
		number, ok := value.(json.Number)
		f, err := number.Float64()
		return f, ok && err == nil
	})
}

// numbers reads a list of numbers; nil if it is missing.
func (o *object) numbers(key string) []float64 {
	return read(o, key, nil, "a list of numbers", func(value any) (out []float64, ok bool) {
		list, ok := value.([]any)
		for _, item := range list {
			number, isNumber := item.(json.Number)
			f, err := number.Float64()
			ok = ok && isNumber && err == nil
			out = append(out, f)
		}
		return out, ok
	})
}

func (o *object) flag(key string, missing bool) bool {
	return read(o, key, missing, "true or false", is[bool])
}

func (o *object) text(key, missing string) string {
	return read(o, key, missing, "a string", is[string])
}

func is[T any](value any) (T, bool) {
	v, ok := value.(T)
	return v, ok
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

// asIntegers accepts a list of integers.
func asIntegers(value any) ([]int, bool) {
	list, ok := value.([]any)
	numbers := make([]int, len(list))
	for i, item := range list {
		var whole bool
		numbers[i], whole = asInteger(item)
		ok = ok && whole
	}
	return numbers, ok
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
			o.fail("%s is %v; expected token ids", key, quoted(value))
			return nil
		}
		ids = append(ids, int32(id))
	}
	return ids
}
