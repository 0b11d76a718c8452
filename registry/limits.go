package registry

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
)

// Validate returns what is wrong with the arguments of a plug-in: what the tags of its fields refuse,
// then what its method Validate does. Build calls it.
func Validate(plugin any) error {
	if errs := beyondLimits(plugin); len(errs) > 0 {
		return errs[0]
	}
	return validate(plugin)
}

// validate calls the method Validate of a plug-in, if it has one.
func validate(plugin any) error {
	if v, ok := plugin.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// placed returns an error of a method Validate at the argument that its text begins with, if it begins
// with one and a colon.
func placed(plugin any, err error) ArgError {
	key, message, ok := strings.Cut(err.Error(), ": ")
	first, _, _ := strings.Cut(key, ".")
	if ok && slices.Contains(fieldKeys(plugin), first) {
		return ArgError{Key: key, Message: message}
	}
	return ArgError{Message: err.Error()}
}

// beyondLimits returns the arguments that the tags of their fields refuse.
func beyondLimits(plugin any) (errs []ArgError) {
	tags.Walk(reflect.ValueOf(plugin), "", func(of, v reflect.Value, f reflect.StructField, key string) {
		if e := beyondOwn(of, v, f); e != (ArgError{}) {
			e.Key = tags.Join(key, e.Key)
			errs = append(errs, e)
		}
	})
	return errs
}

// beyondOwn returns what the tags of one field of a struct refuse, the zero value if nothing. The
// error's key is below the field.
func beyondOwn(owner, v reflect.Value, f reflect.StructField) ArgError {
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
		if key, x, wrong := r.Outside(v); wrong {
			return ArgError{Key: key, Message: fmt.Sprintf("must be %s, got %s", r.Fitting(x), x)}
		}
	}
	if !tags.IsSet(v) {
		return ArgError{}
	}
	for _, want := range conditions(f, "need") {
		if !want.holds(owner) {
			return ArgError{Message: "needs " + want.String(), Hint: "set it too, or remove " + tags.Key(f)}
		}
	}
	for _, other := range conditions(f, "excludes") {
		if other.holds(owner) {
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
func (c condition) holds(owner reflect.Value) bool {
	for _, f := range tags.Fields(owner.Type()) {
		if tags.Key(f) == c.key {
			v := owner.FieldByIndex(f.Index)
			return tags.IsSet(v) && (c.value == "" || fmt.Sprint(reflect.Indirect(v)) == c.value)
		}
	}
	panic("registry: a tag names " + c.key + ", which " + owner.Type().String() + " does not have") // a bug in a struct tag
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
