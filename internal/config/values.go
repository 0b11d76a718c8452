package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/registry"
)

func digits(i int) string { return strconv.Itoa(i) }

// checkValues compares every value with the enum and range of its key. Values of an enum may be in
// any case.
func (s *source) checkValues(all reflect.Value) Errors {
	var errs Errors
	walkValues(all, "", func(f reflect.StructField, v reflect.Value, key string) {
		if enum, ok := f.Tag.Lookup("enum"); ok {
			if catalog, ok := registry.Find(f.Tag.Get("plugin")); ok { // values beside the plug-ins
				enum = strings.Join(append([]string{enum}, catalog.Names()...), "|")
			}
			if message, hint := checkEnum(v, strings.Split(enum, "|")); message != "" {
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
		for _, f := range fields(v.Type()) {
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
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return checkRange(v.Elem(), text)
	case reflect.Slice:
		for i := range v.Len() {
			if m := checkRange(v.Index(i), text); m != "" {
				return m
			}
		}
		return ""
	case reflect.Int:
		return outside(float64(v.Int()), digits(int(v.Int())), text)
	}
	return outside(v.Float(), strconv.FormatFloat(v.Float(), 'g', -1, 64), text)
}

func outside(x float64, shown, text string) string {
	r := parseInterval(text)
	if !math.IsInf(x, 0) && (x > r.low || x == r.low && r.withLow) && (x < r.high || x == r.high && r.withHigh) {
		return ""
	}
	if math.IsInf(x, 1) && math.IsInf(r.high, 1) {
		return fmt.Sprintf("is %s, must be finite and %s", shown, r)
	}
	return fmt.Sprintf("is %s, must be %s", shown, r)
}

// interval is the meaning of a range tag, e.g. (0,1] or [1,).
type interval struct {
	low, high         float64
	withLow, withHigh bool
}

func parseInterval(text string) interval {
	low, high, _ := strings.Cut(text[1:len(text)-1], ",")
	r := interval{withLow: text[0] == '[', withHigh: text[len(text)-1] == ']', high: math.Inf(1)}
	r.low, _ = strconv.ParseFloat(low, 64)
	if high != "" {
		r.high, _ = strconv.ParseFloat(high, 64)
	}
	return r
}

// String describes in words the numbers in the interval.
func (r interval) String() string {
	show := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	low := "more than " + show(r.low)
	if r.withLow {
		low = "at least " + show(r.low)
	}
	switch {
	case math.IsInf(r.high, 1):
		return low
	case r.withHigh:
		return low + " and at most " + show(r.high)
	}
	return low + " and less than " + show(r.high)
}
