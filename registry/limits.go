package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// Validate returns what is wrong with the arguments of a plug-in: what the tags of its fields refuse,
// then what its method Validate does. Build and Check call it.
func Validate(plugin any) error {
	if errs := beyondLimits(reflect.ValueOf(plugin), ""); len(errs) > 0 {
		return errs[0]
	}
	if v, ok := plugin.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// beyondLimits returns the arguments below a key that the tags of their fields refuse.
func beyondLimits(v reflect.Value, key string) (errs []ArgError) {
	switch v.Kind() {
	case reflect.Pointer:
		return beyondLimits(v.Elem(), key)
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				errs = append(errs, beyondLimits(v.Index(i), join(key, strconv.Itoa(i)))...)
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Struct {
			for _, k := range v.MapKeys() {
				errs = append(errs, beyondLimits(v.MapIndex(k), join(key, k.String()))...)
			}
			slices.SortStableFunc(errs, func(a, b ArgError) int { return strings.Compare(a.Key, b.Key) })
		}
	case reflect.Struct:
		for _, f := range tags.Fields(v.Type()) {
			own := join(key, tags.Key(f))
			field := v.FieldByIndex(f.Index)
			if e := beyondOwn(v, f); e != (ArgError{}) {
				e.Key = own
				errs = append(errs, e)
			}
			errs = append(errs, beyondLimits(field, own)...)
		}
	}
	return errs
}

// beyondOwn returns what the tags of one field of a struct refuse, the zero value if nothing.
func beyondOwn(of reflect.Value, f reflect.StructField) ArgError {
	v := of.FieldByIndex(f.Index)
	if text := f.Tag.Get("required"); text != "" && !tags.IsSet(v) {
		return ArgError{Message: text}
	}
	if enum := tags.Enum(f); enum != nil {
		if got := reflect.Indirect(v); got.IsValid() && !slices.Contains(enum, got.String()) {
			return ArgError{Message: fmt.Sprintf("want %s, got %q", choices(enum), got.String())}
		}
	}
	if text := f.Tag.Get("range"); text != "" {
		r := tags.ParseInterval(text)
		if x, wrong := r.Outside(v); wrong {
			return ArgError{Message: fmt.Sprintf("must be %s, got %s", r.Fitting(x), x)}
		}
	}
	if !tags.IsSet(v) {
		return ArgError{}
	}
	for _, want := range conditions(f, "need") {
		if !want.holds(of) {
			return ArgError{Message: "needs " + want.String(), Hint: "set it too, or remove " + tags.Key(f)}
		}
	}
	for _, other := range conditions(f, "excludes") {
		if other.holds(of) {
			return ArgError{Message: "has no effect beside " + other.String(), Hint: "remove one of them"}
		}
	}
	return ArgError{}
}

// condition is another argument that a tag need or excludes names.
type condition struct{ key, value string }

// conditions reads a tag need or excludes.
func conditions(f reflect.StructField, tag string) (all []condition) {
	for part := range strings.FieldsFuncSeq(f.Tag.Get(tag), func(r rune) bool { return r == ',' }) {
		key, value, _ := strings.Cut(part, "=")
		all = append(all, condition{key, value})
	}
	return all
}

func (c condition) String() string {
	if c.value == "" {
		return c.key
	}
	return c.key + ": " + c.value
}

func texts(all []condition) (out []string) {
	for _, c := range all {
		out = append(out, c.String())
	}
	return out
}

// holds reports whether the argument is set, or has the wanted value.
func (c condition) holds(of reflect.Value) bool {
	for _, f := range tags.Fields(of.Type()) {
		if tags.Key(f) == c.key {
			v := of.FieldByIndex(f.Index)
			return tags.IsSet(v) && (c.value == "" || fmt.Sprint(reflect.Indirect(v)) == c.value)
		}
	}
	panic("registry: a tag names " + c.key + ", which " + of.Type().String() + " does not have") // a bug in a struct tag
}

// choices joins values for a sentence: a, b or c.
func choices(values []string) string {
	shown := slices.Clone(values)
	for i, v := range shown {
		if v == "" {
			shown[i] = "nothing"
		}
	}
	if len(shown) < 2 {
		return strings.Join(shown, "")
	}
	return strings.Join(shown[:len(shown)-1], ", ") + " or " + shown[len(shown)-1]
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}
