package config

import (
	"encoding/json"
	"fmt"
	"maps"
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

// All that Mask hides as a whole is a secret of the configuration, also in plug-ins' arguments and stages. The
// arguments of commands are shown without keys and passwords.
func TestSecretsOfAConfiguration(t *testing.T) {
	const taskset = "buffer.explorer_input.taskset."
	cfg, err := Parse("c.yaml", []byte(base), Options{Overrides: []string{
		"explorer.rollout_model.api_key=s3cret-1", "explorer.env_vars={A: s3cret-2}",
		taskset + "reward_fn_args={api_key: Bearer s3cret-3, timeout: 5, env_vars: {B: s3cret-7}, " +
			"command: [agent, --api-key=s3cret-4, --token, s3cret-5, -v, 'x --password s3cret-6']}",
	}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	cfg.Secrets(func(key, value string) { got[key] = value })
	want := map[string]string{
		"explorer.rollout_model.api_key": "s3cret-1", "explorer.env_vars.A": "s3cret-2",
		taskset + "reward_fn_args.api_key": "Bearer s3cret-3", taskset + "reward_fn_args.env_vars.B": "s3cret-7",
	}
	if !maps.Equal(got, want) {
		t.Errorf("secrets %v, want %v", got, want)
	}
	text, err := cfg.YAML()
	if err != nil || strings.Contains(text, "s3cret") ||
		!strings.Contains(text, `[agent, --api-key=***, --token, "***", -v, x --password ***]`) {
		t.Errorf("%v, %s", err, text)
	}
}
