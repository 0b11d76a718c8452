package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// parse reads a configuration from text with an empty environment.
func parse(t *testing.T, text string, opts ...Options) (*Config, error) {
	t.Helper()
	var o Options
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.Env == nil {
		o.Env = func(string) (string, bool) { return "", false }
	}
	return Parse("c.yaml", []byte(text), o)
}

func mustParse(t *testing.T, text string, opts ...Options) *Config {
	t.Helper()
	c, err := parse(t, text, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sharedDir returns a folder of the data shared beside the repository. It skips the test if there
// is none.
func sharedDir(t *testing.T, parts ...string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		candidate := filepath.Join(append([]string{dir, "shared"}, parts...)...)
		if _, err := os.Stat(candidate); err == nil {
			return candidate
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Skipf("no shared data beside the repository: %s", filepath.Join(parts...))
		}
		dir = up
	}
}

var withoutDefault = regexp.MustCompile(`\$\{oc\.env:(\w+)\}`)

// onlyWithoutDefault returns an environment with those variables for which a file gives no default.
func onlyWithoutDefault(text string) func(string) (string, bool) {
	names := map[string]bool{}
	for _, m := range withoutDefault.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return func(name string) (string, bool) { return "some_" + strings.ToLower(name), names[name] }
}

// Every configuration of users loads with --engine cpu, or each error is at the line of a value
// that this version does not support.
func TestUserConfigs(t *testing.T) {
	root := sharedDir(t, "data", "trinity_rft_configs")
	loaded, refused := 0, 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		_, err = Parse(name, data, Options{Env: onlyWithoutDefault(string(data)), Engine: "cpu"})
		if err == nil {
			loaded++
			t.Log("loads: ", name)
			return nil
		}
		refused++
		var errs Errors
		if !errors.As(err, &errs) {
			t.Errorf("%s: %v", name, err)
		}
		for _, e := range errs {
			t.Log(e)
			template := strings.HasSuffix(name, "-template.yaml") && strings.HasSuffix(e.Key, ".path") // to be filled in, which upstream refuses too
			if e.Line == 0 || !e.Unsupported && !template {
				t.Errorf("not about a part that is missing: %v", e)
			}
		}
		return nil
	})
	if err != nil || loaded+refused != 48 || loaded == 0 {
		t.Fatalf("%d loaded, %d refused, want 48 in all: %v", loaded, refused, err)
	}
}

// If variables without a default are not set, the error names each of them at its line, beside all
// other errors.
func TestUserConfigsNeedTheirVariables(t *testing.T) {
	root := sharedDir(t, "data", "trinity_rft_configs")
	path := filepath.Join(root, "examples", "mix_math", "mix_math.yaml")
	_, err := Load(path, Options{Env: func(string) (string, bool) { return "", false }})
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	unset := 0
	for _, e := range errs {
		if strings.Contains(e.Message, "is not set") && e.Line > 0 {
			unset++
		} else if !e.Unsupported {
			t.Error(e)
		}
	}
	if unset != 3 || len(errs) == unset {
		t.Errorf("%d variables, want 3 and what is not built: %v", unset, err)
	}
}
