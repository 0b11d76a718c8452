package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// The folder of a program is removed after it, also if the program has forbidden folders in it. Package durable
// removes that of a killed run.
func TestFolderIsRemoved(t *testing.T) {
	f, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	forbidden := filepath.Join(f.work(), "a", "b")
	if err := os.MkdirAll(forbidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{forbidden, filepath.Dir(forbidden)} { // as a program may
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	f.remove()
	if _, err := os.Lstat(f.Dir); err == nil {
		t.Error("a folder is left after its program")
	}
}
