// Package tags reads the tags of structs whose fields are keys of a configuration or arguments of
// a plug-in. These tags limit an argument; of a key of a configuration, only range and enum do:
//
//	range     the allowed numbers, as an interval: [0,1] (0,1] [1,) (,) [0,inf]; only a bound inf
//	          allows an infinite number
//	enum      the allowed values, separated by |; a type may list its values itself, see [Enum]
//	required  what to do if the value is empty
//	need      the keys that must be set as well, separated by commas; key=value wants that value
//	excludes  the keys that must not be set as well, separated by commas
//
// A key is set if its value is not empty: not zero, null, false, "" or a list without items. A value
// that may be null is set by any value but null. A value that is null must only obey required.
package tags

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Key returns the key of a field, "" if it has none.
func Key(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if key == "-" || !f.IsExported() {
		return ""
	}
	return key
}

// Fields lists the fields of a struct that have a key, in order. The fields of an embedded inline
// struct take the place of that struct.
func Fields(t reflect.Type) (all []reflect.StructField) {
	for i := range t.NumField() {
		f := t.Field(i)
		switch {
		case f.Tag.Get("yaml") == ",inline":
			for _, inner := range Fields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				all = append(all, inner)
			}
		case Key(f) != "":
			all = append(all, f)
		}
	}
	return all
}

// Walk calls visit for every field that has a key, in a struct and in the structs that it holds, with
// the struct that the field is of and its dotted key. visit may set the value.
func Walk(v reflect.Value, key string, visit func(owner, v reflect.Value, f reflect.StructField, key string)) {
	switch v.Kind() {
	case reflect.Pointer:
		Walk(v.Elem(), key, visit)
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k == reflect.Struct || k == reflect.Pointer {
			for i := range v.Len() {
				Walk(v.Index(i), Join(key, strconv.Itoa(i)), visit)
			}
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.Struct {
			for _, name := range sorted(v) {
				walkItem(v, name, Join(key, name.String()), visit)
			}
		}
	case reflect.Struct:
		for _, f := range Fields(v.Type()) {
			field, path := v.FieldByIndex(f.Index), Join(key, Key(f))
			visit(v, field, f, path)
			Walk(field, path, visit)
		}
	}
}

// walkItem walks over a copy of a struct in a table, and puts it back only if visit has changed it: a
// walk that reads may run beside others.
func walkItem(table, name reflect.Value, key string, visit func(of, v reflect.Value, f reflect.StructField, key string)) {
	before := table.MapIndex(name)
	item := reflect.New(before.Type()).Elem()
	item.Set(before)
	Walk(item, key, visit)
	if !reflect.DeepEqual(item.Interface(), before.Interface()) {
		table.SetMapIndex(name, item)
	}
}

// sorted returns the names of a table in order.
func sorted(table reflect.Value) []reflect.Value {
	names := table.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// Join returns the dotted key of a key in a section. Each of them may be "".
func Join(section, key string) string {
	if section == "" || key == "" {
		return section + key
	}
	return section + "." + key
}

// Dotted returns the dotted key of a path with indices in brackets: list.0.name of list[0].name.
func Dotted(path string) string { return strings.NewReplacer("[", ".", "]", "").Replace(path) }

// IsSet reports whether a value is not empty.
func IsSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	}
	return !v.IsZero()
}

// Interval is the meaning of a range tag.
type Interval struct {
	Low, High         float64
	WithLow, WithHigh bool
}

// ParseInterval reads a range tag.
func ParseInterval(text string) Interval {
	low, high, _ := strings.Cut(text[1:len(text)-1], ",")
	r := Interval{Low: math.Inf(-1), High: math.Inf(1), WithLow: text[0] == '[', WithHigh: text[len(text)-1] == ']'}
	if low != "" {
		r.Low, _ = strconv.ParseFloat(low, 64)
	}
	if high != "" {
		r.High, _ = strconv.ParseFloat(high, 64)
	}
	return r
}

// Has reports whether a number is in the interval. NaN is in none.
func (r Interval) Has(x float64) bool {
	return (x > r.Low || x == r.Low && r.WithLow) && (x < r.High || x == r.High && r.WithHigh)
}

// Outside returns the first number of a value that is not in the interval, as text, its dotted key
// below the value, and whether there is one. The value is a number, a list or table of numbers, or a
// pointer to one of them.
func (r Interval) Outside(v reflect.Value) (key, x string, found bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return r.Outside(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if below, x, found := r.Outside(v.Index(i)); found {
				return Join(strconv.Itoa(i), below), x, true
			}
		}
	case reflect.Map:
		for _, name := range sorted(v) {
			if below, x, found := r.Outside(v.MapIndex(name)); found {
				return Join(name.String(), below), x, true
			}
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "", strconv.FormatInt(v.Int(), 10), !r.Has(float64(v.Int()))
	case reflect.Float32, reflect.Float64:
		return "", strconv.FormatFloat(v.Float(), 'g', -1, 64), !r.Has(v.Float())
	}
	return "", "", false
}

const finite = "a finite number"

// String describes the numbers in the interval in words.
func (r Interval) String() string {
	show := func(x float64) string {
		if x == math.Trunc(x) && math.Abs(x) < 1e15 {
			return strconv.FormatInt(int64(x), 10)
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	low, high := "more than "+show(r.Low), "less than "+show(r.High)
	if r.WithLow {
		low = "at least " + show(r.Low)
	}
	if r.WithHigh {
		high = "at most " + show(r.High)
	}
	hasLow, hasHigh := !math.IsInf(r.Low, 0), !math.IsInf(r.High, 0)
	switch {
	case r.Low == r.High:
		return show(r.Low)
	case hasLow && hasHigh:
		return low + " and " + high
	case hasLow:
		return low
	case hasHigh:
		return high
	}
	if r.WithLow || r.WithHigh {
		return "a number"
	}
	return finite
}

// Fitting describes the numbers in the interval to somebody who gave x, which may be infinite.
func (r Interval) Fitting(x string) string {
	if x == "+Inf" && math.IsInf(r.High, 1) && !r.WithHigh && r.String() != finite {
		return "finite and " + r.String()
	}
	return r.String()
}

// Enum returns the values that a field may have: those of its tag, or those of its type, which lists
// them with a method Values. It is nil if the field may have any value.
func Enum(f reflect.StructField) []string {
	if text, ok := f.Tag.Lookup("enum"); ok {
		return strings.Split(text, "|")
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if of, ok := reflect.Zero(t).Interface().(interface{ Values() []string }); ok {
		return of.Values()
	}
	return nil
}
