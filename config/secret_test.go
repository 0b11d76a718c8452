package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Whichever key has a URL, no output contains its password. The run's names and directory are not
// URLs.
func TestNothingPrintsPasswords(t *testing.T) {
	const url = "postgresql://ann:s3cret@host/rft"
	key := strings.NewReplacer(".*", ".0", "<name>", "x")
	for _, k := range Keys() {
		value, isText := map[string]string{"string": url, "names": url, "dict": "{a: '" + url + "'}", "list": "['" + url + "']"}[k.Type]
		if !isText || slices.Contains([]string{"project", "group", "name", "checkpoint_root_dir"}, k.Path) {
			continue
		}
		for _, mode := range []string{"both", "explore"} {
			if mode == "explore" && !strings.HasPrefix(k.Path, "buffer.trainer_input.experience_buffer.") {
				continue
			}
			set := []string{"mode=" + mode, key.Replace(k.Path) + "=" + value}
			if said := printed(Options{Overrides: set}); strings.Contains(said, "s3cret") {
				at := strings.Index(said, "s3cret")
				t.Errorf("%v: …%s", set, said[max(0, at-60):min(len(said), at+40)])
			}
		}
	}
}

// printed returns everything that the package prints of a configuration.
func printed(o Options) string {
	cfg, err := Parse("c.yaml", []byte(base), o)
	if err != nil {
		return err.Error()
	}
	f := Facts{Missing: map[string]string{}}
	for _, key := range cfg.settled[0].Sources() {
		f.Missing[key] = "postgresql://ann:s3cret@host/rft"
	}
	plan, err := cfg.Plan(f)
	if err != nil {
		return err.Error()
	}
	data, err := json.Marshal([]any{plan, cfg})
	if err != nil {
		return err.Error()
	}
	text, err := cfg.YAML()
	return fmt.Sprint(string(data), plan, text, err)
}
