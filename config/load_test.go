package config

import (
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

// sharedDir returns a folder of the data shared beside the repository, and skips the test where there is none.
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

// onlyWithoutDefault is an environment that has the variables for which a file gives no default.
func onlyWithoutDefault(text string) func(string) (string, bool) {
	names := map[string]bool{}
	for _, m := range withoutDefault.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return func(name string) (string, bool) { return "some_" + strings.ToLower(name), names[name] }
}

func TestUserConfigsParse(t *testing.T) {
	root := sharedDir(t, "data", "trinity_rft_configs")
	n := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		n++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		src, err := readSource(path, data, Options{Env: onlyWithoutDefault(string(data))})
		if err != nil {
			t.Error(err)
			return nil
		}
		if _, errs := src.decode(src.root); len(errs) > 0 {
			t.Error(errs)
		}
		return nil
	})
	if err != nil || n < 40 {
		t.Fatal(n, err)
	}
}
