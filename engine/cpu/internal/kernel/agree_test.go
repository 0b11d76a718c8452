package kernel

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"unsafe"
)

func TestChooseRejectsASetWithOtherBits(t *testing.T) {
	defer func(old []*kernels) { sets = old; choose() }(sets)
	broken := portable
	broken.name = "broken"
	broken.axpy = func(y, x *float32, a float32, n int) {
		portable.axpy(y, x, a, n)
		*y++
	}
	sets = append([]*kernels{&broken}, sets...)
	if got := choose(); got == "broken" || !slices.Equal(Rejected(), []string{"broken"}) {
		t.Errorf("chose %s, rejected %v", got, Rejected())
	}
}

// TestDigestUsesEveryKernel has each function of each set's table end the digest in turn.
func TestDigestUsesEveryKernel(t *testing.T) {
	defer choose()
	for _, set := range sets {
		whole := *set
		eighths := *set.int8
		whole.int8 = &eighths
		for _, table := range []reflect.Value{reflect.ValueOf(&whole).Elem(), reflect.ValueOf(&eighths).Elem()} {
			forEachFunction(table, set.name, func(name string, f reflect.Value) {
				kept := reflect.ValueOf(f.Interface())
				f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic(name) }))
				defer f.Set(kept)
				defer func() {
					if recover() != name {
						t.Errorf("%s is not in the digest", name)
					}
				}()
				whole.digest()
			})
		}
	}
}

// forEachFunction visits the functions of a table that are not nil.
func forEachFunction(v reflect.Value, name string, visit func(name string, f reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Field(i)
			forEachFunction(reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem(), name+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Array:
		for i := range v.Len() {
			forEachFunction(v.Index(i), fmt.Sprintf("%s[%d]", name, i), visit)
		}
	case reflect.Func:
		if !v.IsNil() {
			visit(name, v)
		}
	}
}

func TestAllSetsAgree(t *testing.T) {
	defer choose()
	if choose(); len(Rejected()) > 0 {
		t.Errorf("rejected %v", Rejected())
	}
}
