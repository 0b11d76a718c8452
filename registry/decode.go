package registry

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"

	"github.com/trinity-go/trinity/internal/tags"
)

// ArgError is one error in a plug-in's arguments.
type ArgError struct {
	Key     string // the argument; "" for the plug-in as a whole
	Message string
	Hint    string // what to do, may be empty
}

func (e ArgError) Error() string {
	s := e.Message
	if e.Key != "" {
		s = e.Key + ": " + s
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// decode writes args into the struct that v points to.
func decode(v any, args map[string]any) []ArgError {
	if len(args) == 0 {
		return nil
	}
	keys := fieldKeys(v)
	var errs []ArgError
	known := map[string]any{}
	for _, k := range sortedKeys(args) {
		if slices.Contains(keys, k) {
			known[k] = args[k]
		} else {
			errs = append(errs, unknownKey(k, keys))
		}
	}
	if len(known) == 0 { // a plug-in without arguments need not be a pointer
		return errs
	}
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: v, TagName: "yaml", SquashTagOption: "inline", ErrorUnused: true, DecodeHook: checkType,
	})
	if err != nil {
		return []ArgError{{Message: err.Error()}}
	}
	if err := d.Decode(known); err != nil {
		errs = append(errs, decodeErrors(err)...)
	}
	for i := range errs {
		if slices.ContainsFunc(strings.Split(errs[i].Key, "."), IsSecret) {
			errs[i].Message, _, _ = strings.Cut(errs[i].Message, ", got ")
		}
	}
	return errs
}

func unknownKey(k string, keys []string) ArgError {
	e := ArgError{Key: k, Message: "unknown argument"}
	switch near := Nearest(k, keys); {
	case near != "":
		e.Hint = fmt.Sprintf("did you mean %q?", near)
	case len(keys) == 0:
		e.Hint = "it takes none"
	default:
		e.Hint = "known: " + strings.Join(keys, ", ")
	}
	return e
}

// checkType returns an error, in the words of a configuration, if the wanted type cannot hold the
// value exactly.
func checkType(from, to reflect.Type, data any) (any, error) {
	fits, want := true, ""
	switch to.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		fits, want = isWhole(reflect.ValueOf(data), reflect.Zero(to)), "a whole number"
	case reflect.Float32, reflect.Float64:
		fits, want = from.ConvertibleTo(to), "a number"
	case reflect.Bool:
		fits, want = from.Kind() == reflect.Bool, "true or false"
	case reflect.String:
		fits, want = from.Kind() == reflect.String, "text"
	case reflect.Slice:
		fits, want = from.Kind() == reflect.Slice, "a list"
	case reflect.Map, reflect.Struct:
		fits, want = from.Kind() == reflect.Map || from == to, "a mapping of names to values"
	}
	if fits {
		return data, nil
	}
	if text, ok := data.(string); ok {
		return nil, fmt.Errorf("wants %s, got %q", want, text)
	}
	return nil, fmt.Errorf("wants %s, got %v", want, data)
}

// isWhole reports whether a value is a whole number that the type of to can hold.
func isWhole(v, to reflect.Value) bool {
	switch {
	case v.CanInt():
		return !to.OverflowInt(v.Int())
	case v.CanUint():
		return v.Uint() <= math.MaxInt64 && !to.OverflowInt(int64(v.Uint()))
	case v.CanFloat():
		f := v.Float()
		return f == math.Trunc(f) && math.Abs(f) < 1<<63 && !to.OverflowInt(int64(f))
	}
	return false
}

var quotedKey = regexp.MustCompile(`^'([^']*)'\s*(.*)$`)

func decodeErrors(err error) []ArgError {
	var out []ArgError
	var joined interface{ Unwrap() []error }
	list := []error{err}
	if errors.As(err, &joined) {
		list = joined.Unwrap()
	}
	for _, e := range list {
		text := strings.TrimSpace(e.Error())
		var de *mapstructure.DecodeError
		if errors.As(e, &de) {
			out = append(out, ArgError{Key: tags.Dotted(de.Name()), Message: strings.TrimSpace(de.Unwrap().Error())})
			continue
		}
		if m := quotedKey.FindStringSubmatch(text); m != nil {
			out = append(out, ArgError{Key: tags.Dotted(m[1]), Message: m[2]})
			continue
		}
		out = append(out, ArgError{Message: text})
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
