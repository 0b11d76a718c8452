package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Load reports a value outside the range of its key once, whatever other rules it breaks.
func TestOutOfRangeIsSaidOnce(t *testing.T) {
	whole, err := Parse("whole.yaml", []byte(base), Options{})
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	eachField(reflect.TypeOf(*whole), "", func(f reflect.StructField, key string) {
		text := f.Tag.Get("range")
		if text == "" {
			return
		}
		r := parseInterval(text)
		value := fmt.Sprint(r.low - 1)
		if f.Type.Kind() == reflect.Slice {
			value = "[" + value + "]"
		}
		_, err := Parse("base.yaml", []byte(base), Options{Overrides: []string{key + "=" + value}})
		var all Errors
		if !errors.As(err, &all) {
			t.Errorf("%s=%s: %v", key, value, err)
			return
		}
		n := 0
		for _, e := range all {
			if e.Key == key && !e.Unsupported {
				n++
			}
		}
		if tried++; n != 1 {
			t.Errorf("%s=%s: %d errors of the key, want 1:\n%v", key, value, n, all)
		}
	})
	if tried < 50 {
		t.Errorf("%d keys were tried", tried)
	}
}

// eachField visits the fields of sections, except those in lists.
func eachField(typ reflect.Type, key string, visit func(f reflect.StructField, key string)) {
	switch typ.Kind() {
	case reflect.Pointer:
		eachField(typ.Elem(), key, visit)
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name == "" || name == "stages" {
				continue
			}
			visit(f, join(key, name))
			eachField(f.Type, join(key, name), visit)
		}
	}
}
