package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	put := func(text string, fail error) error {
		return Replace(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, fail)
		})
	}
	if err := put("old", nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := put("half", broken); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("after a failure the file holds %q", text)
	}
	if err := put("new", nil); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("the file holds %q", text)
	}
	if err := Replace(filepath.Join(path, "y"), nil); err == nil || strings.Contains(err.Error(), TempPrefix) {
		t.Errorf("the error of a directory that is not there is %v: want the given path", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), TempPrefix+"*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestWriteDirReplacesAsAWhole(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	put := func(name string, fail error) error {
		return WriteDir(dir, func(temp string) error {
			return errors.Join(os.WriteFile(filepath.Join(temp, name), nil, 0o644), fail)
		})
	}
	if err := put("old", nil); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	if err := put("half", broken); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); err != nil {
		t.Errorf("a failed write took the old content away: %v", err)
	}
	if err := RemoveLeftovers(parent); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, TempPrefix+"*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if err := put("new", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "old")); err == nil {
		t.Error("the old content is still there")
	}
}

// Other users can never read a secret, whatever a killed process left.
func TestSecretIsForItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), TempPrefix+"x"), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := WriteSecret(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if got, _ := os.ReadFile(path); err != nil || string(got) != text || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%q, %v, %v; want %q, and that the owner alone may read it", got, info.Mode(), err, text)
		}
	}
}

// A missing drive has no existing parent.
func TestMissing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a")
	nothing := func(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }
	for name, c := range map[string]struct {
		dir  string
		stat func(string) (fs.FileInfo, error)
		want []string
	}{
		"there":          {filepath.Dir(root), os.Stat, nil},
		"below":          {filepath.Join(root, "b"), os.Stat, []string{filepath.Join(root, "b"), root}},
		"unreadable":     {root, func(string) (fs.FileInfo, error) { return nil, fs.ErrPermission }, nil},
		"no root":        {filepath.FromSlash("/a"), nothing, []string{filepath.FromSlash("/a"), filepath.FromSlash("/")}},
		"nothing at all": {"a", nothing, []string{"a", "."}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := missing(c.dir, c.stat); !slices.Equal(got, c.want) {
				t.Errorf("missing %q, want %q", got, c.want)
			}
		})
	}
}
