package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

func digits(i int) string { return strconv.Itoa(i) }

// checkValues compares every value with the enum and range of its key. Values of an enum may be in
// any case.
func (s *source) checkValues(all reflect.Value) Errors {
	var errs Errors
	walkValues(all, "", func(f reflect.StructField, v reflect.Value, key string) {
		if enum := tags.Enum(f); enum != nil {
			if catalog, ok := registry.Find(f.Tag.Get("plugin")); ok { // values beside the plug-ins
				enum = append(enum, catalog.Names()...)
			}
			if message, hint := checkEnum(v, enum); message != "" {
				hint = cmp.Or(removedValues[f.Tag.Get("yaml")+"="+v.String()], hint)
				errs = append(errs, s.errorFor(key, message, hint))
			}
		}
		if text := f.Tag.Get("range"); text != "" {
			if message := checkRange(v, text); message != "" {
				errs = append(errs, s.errorFor(key, message, ""))
			}
		}
	})
	return errs
}

// walkValues calls visit for every field of a configuration with its dotted key. visit may set the
// value.
func walkValues(v reflect.Value, key string, visit func(f reflect.StructField, v reflect.Value, key string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walkValues(v.Elem(), key, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walkValues(v.Index(i), join(key, digits(i)), visit)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() != reflect.Struct {
			return
		}
		for _, name := range v.MapKeys() {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(name))
			walkValues(item, join(key, name.String()), visit)
			v.SetMapIndex(name, item)
		}
	case reflect.Struct:
		for _, f := range tags.Fields(v.Type()) {
			field, path := v.FieldByIndex(f.Index), join(key, f.Tag.Get("yaml"))
			visit(f, field, path)
			walkValues(field, path, visit)
		}
	}
}

func checkEnum(v reflect.Value, allowed []string) (message, hint string) {
	got := v.String()
	for _, a := range allowed {
		if strings.EqualFold(a, got) {
			v.SetString(a)
			return "", ""
		}
	}
	if allowed[0] == "" {
		allowed = allowed[1:]
	}
	hint = "one of " + strings.Join(allowed, ", ")
	if near := nearest(got, allowed); near != "" {
		hint = fmt.Sprintf("did you mean %q? %s", near, hint)
	}
	return fmt.Sprintf("%q is not a value of this key", shorten(got)), hint
}

// checkRange returns what is wrong with a number or with the first wrong number of a list; "" if
// nothing is.
func checkRange(v reflect.Value, text string) string {
	r := tags.ParseInterval(text)
	if shown, wrong := r.Outside(v); wrong {
		return fmt.Sprintf("is %s, must be %s", shown, r.Fitting(shown))
	}
	return ""
}
