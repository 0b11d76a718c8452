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

// checkValues compares every value with the enum and range of its key.
func (s *source) checkValues(all reflect.Value) (errs Errors) {
	tags.Walk(all, "", func(_, v reflect.Value, f reflect.StructField, key string) {
		if below, message, hint := checkValue(v, f); message != "" {
			errs = append(errs, s.errorFor(tags.Join(key, below), message, hint))
		}
	})
	return errs
}

// checkValue returns what is wrong with a value by the enum or range of its field, and the key of the
// wrong element below the field's; "" if nothing is. Values of an enum may be in any case.
func checkValue(v reflect.Value, f reflect.StructField) (below, message, hint string) {
	if enum := tags.Enum(f); enum != nil {
		if catalog, ok := registry.Find(f.Tag.Get("plugin")); ok { // values beside the plug-ins
			enum = append(enum, catalog.Names()...)
		}
		message, hint = checkEnum(v, enum)
		return "", message, cmp.Or(removedValues[f.Tag.Get("yaml")+"="+v.String()], hint)
	}
	if text := f.Tag.Get("range"); text != "" {
		r := tags.ParseInterval(text)
		if below, shown, wrong := r.Outside(v); wrong {
			return below, fmt.Sprintf("is %s, must be %s", shown, r.Fitting(shown)), switchedOff[f.Tag.Get("yaml")]
		}
	}
	return "", "", ""
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
