package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/trinity-go/trinity/internal/durable"
)

// The size of a path is that of its files, at any depth.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, filepath.Join(dir, "c")} {
		if err := os.WriteFile(f, []byte("12345"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]int64{dir: 10, file: 5} {
		if n, err := durable.Size(path); n != want || err != nil {
			t.Errorf("%s has %d, %v, want %d", path, n, err, want)
		}
	}
	if _, err := durable.Size(filepath.Join(dir, "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that is not there: %v", err)
	}
}
