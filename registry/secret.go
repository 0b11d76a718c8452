package registry

import (
	"reflect"
	"strings"
	"sync"
)

// IsSecret reports whether an argument of some plug-in, at any depth, has this name and the tag
// `secret:"true"`. Whoever shows or keeps arguments puts stars in place of its value.
func IsSecret(name string) bool { return secrets()[name] }

var secrets = sync.OnceValue(func() map[string]bool {
	names, seen := map[string]bool{}, map[reflect.Type]bool{}
	for _, c := range catalogs {
		for _, e := range c.entries {
			addSecrets(names, reflect.TypeOf(e.new()), seen)
		}
	}
	return names
})

// addSecrets adds the names of the secret fields of a type to names. Seen has the types whose
// fields are there already.
func addSecrets(names map[string]bool, t reflect.Type, seen map[reflect.Type]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addSecrets(names, t.Elem(), seen)
	case reflect.Struct:
		if seen[t] {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			names[name] = names[name] || f.Tag.Get("secret") == "true"
			addSecrets(names, f.Type, seen)
		}
	}
}
