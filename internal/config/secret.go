package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// Mask returns a value as it may be shown or kept under a dotted key: stars for a secret, and a
// text without the passwords of URLs. A key is a secret if it has, or is below, the name of a field
// of the schema or of a plug-in with the tag `secret:"true"`. The default of a field is no secret.
func Mask(key string, value any) any {
	text := fmt.Sprint(value)
	if value == nil || slices.Contains([]string{"", "true", "false"}, text) {
		return value
	}
	for name := range strings.SplitSeq(key, ".") {
		public, ok := schemaSecrets()[name]
		if (ok || registry.IsSecret(name)) && text != public {
			return "***"
		}
	}
	if _, ok := value.(string); ok {
		return safetext.Hidden(text)
	}
	return value
}

// SecretIn returns the key of a secret that stands in a `key=value` setting itself, and "" if none
// does: what `${oc.env:NAME}` gives stands in the environment.
func SecretIn(setting string) string {
	key, text, _ := strings.Cut(setting, "=")
	node, err := overrideValue(text)
	if err != nil {
		return "" // Load reports it
	}
	for at, value := range Flatten(map[string]any{strings.TrimSpace(key): plain(node)}) {
		if text, ok := value.(string); ok {
			value = fromVariable.ReplaceAllString(text, "")
		}
		if Mask(at, value) != value {
			return at
		}
	}
	return ""
}

// Secrets calls each with the keys and values, at any depth and of all stages, that [Mask] hides as a
// whole.
func (c *Config) Secrets(each func(key, value string)) {
	var walk func(v reflect.Value, key string)
	walk = func(v reflect.Value, key string) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem(), key)
			}
		case reflect.Struct:
			for _, f := range tags.Fields(v.Type()) {
				walk(v.FieldByIndex(f.Index), tags.Join(key, f.Tag.Get("yaml")))
			}
		case reflect.Map:
			for _, k := range v.MapKeys() {
				walk(v.MapIndex(k), tags.Join(key, k.String()))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), key)
			}
		case reflect.String:
			if text := v.String(); Mask(key, text) == "***" {
				each(key, text)
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), "")
	for _, s := range c.settled {
		if &s.Config != c {
			s.Secrets(each)
		}
	}
}

// fromVariable is a variable, also as the password of a URL.
var fromVariable = regexp.MustCompile(`:?\$\{oc\.env:[A-Za-z_][A-Za-z0-9_]*\}`)

// schemaSecrets has the defaults of the schema's secrets, by the last names of their keys.
var schemaSecrets = sync.OnceValue(func() map[string]string {
	defaults := map[string]string{}
	for _, k := range keys() {
		if k.field.Tag.Get("secret") == "true" {
			defaults[lastKey(k.Path)] = k.Default
		}
	}
	return defaults
})
