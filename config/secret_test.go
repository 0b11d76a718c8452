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

// A setting has a secret unless a variable gives it.
func TestSecretsInSettings(t *testing.T) {
	for setting, want := range map[string]string{
		"explorer.rollout_model.api_key=s3cret":                   "explorer.rollout_model.api_key",
		"explorer.rollout_model.api_key=1234":                     "explorer.rollout_model.api_key",
		"explorer.rollout_model.api_key=EMPTY":                    "",
		"explorer.rollout_model.api_key=${oc.env:KEY}":            "",
		"explorer.rollout_model.api_key=${oc.env:KEY,s3cret}":     "explorer.rollout_model.api_key",
		"explorer.rollout_model={api_key: s3cret}":                "explorer.rollout_model.api_key",
		"explorer.env_vars={TOKEN: '${oc.env:A}', B: s3cret}":     "explorer.env_vars.B",
		"buffer.x.path=postgresql://ann:s3cret@host/rft":          "buffer.x.path",
		"buffer.x.path=postgresql://ann:${oc.env:P}@host/rft":     "",
		"buffer.batch_size=8":                                     "",
		"explorer.rollout_model.base_urls=[http://a, 'http://b']": "",
		"name={": "",
	} {
		if got := SecretIn(setting); got != want {
			t.Errorf("%s: %q, want %q", setting, got, want)
		}
	}
}
