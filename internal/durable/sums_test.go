package durable

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sealed makes a directory with a file, a file in a directory below, and a directory that is sealed
// itself.
func sealed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "first", "below/b": "second", "own/c": "third"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(Seal(filepath.Join(dir, "own")), Seal(dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSealedDirectories(t *testing.T) {
	write := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
	}
	remove := func(name string) func(dir string) error {
		return func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) }
	}
	sums := func(change func(string) string) func(dir string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, SumsFile))
			return errors.Join(err, write(SumsFile, change(string(text)))(dir))
		}
	}
	left := func(names ...string) func(dir string) error {
		return func(dir string) (err error) {
			for _, name := range names {
				path := filepath.Join(dir, name)
				err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644))
			}
			return err
		}
	}
	for name, c := range map[string]struct {
		change         func(dir string) error
		error, missing string
	}{
		"nothing":              {func(string) error { return nil }, "", ""},
		"a file":               {write("a", "First"), "a is damaged", ""},
		"a file below":         {write("below/b", ""), "b is damaged", ""},
		"a new file":           {write("d", ""), "d is not in SHA256SUMS", ""},
		"a new document":       {write("README.md", "text"), "", ""},
		"a file is gone":       {remove("below/b"), "b is missing", "below/b"},
		"a killed writer":      {left(TempPrefix+"x/d", replacedPrefix+"x/d", TempPrefix+"e", "below/"+LockPrefix+"f"), "", ""},
		"the sums are gone":    {remove(SumsFile), SumsFile, SumsFile},
		"the sums are empty":   {write(SumsFile, ""), "a is not in SHA256SUMS", ""},
		"the sums are cut":     {sums(func(s string) string { return s[:len(s)-1] }), "SHA256SUMS is damaged", ""},
		"the sums are shorter": {sums(func(s string) string { return s[:1+strings.IndexByte(s, '\n')] }), "b is not in SHA256SUMS", ""},
		"the sums lead away":   {sums(func(s string) string { return strings.Replace(s, "  a", "  ../a", 1) }), "SHA256SUMS is damaged", ""},
		"one sealed itself":    {remove("own"), "", ""},
		"a file in that one":   {write("own/c", ""), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := sealed(t)
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			if err := Verify(dir); (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
				t.Errorf("%v, want %q", err, c.error)
			}
			if got := Missing(dir); got != c.missing {
				t.Errorf("missing is %q, want %q", got, c.missing)
			}
		})
	}
}

func TestSumsAreThoseOfSha256sum(t *testing.T) {
	program, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skip("there is no sha256sum")
	}
	c := exec.Command(program, "--check", "--strict", SumsFile)
	c.Dir = sealed(t)
	if out, err := c.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 2 {
		t.Errorf("%v: %s", err, out)
	}
}
