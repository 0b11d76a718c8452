package config

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/database"
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
		return database.Hidden(text)
	}
	return value
}

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
