package database

import (
	"path/filepath"
	"strings"
	"testing"
)

// A file that cannot be written is an error of the system, which says why, and not SQLite's number.
func TestAFileThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	a, err := Parse("sqlite:///" + filepath.ToSlash(dir))
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), a, Options{})
	if err == nil {
		_ = db.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "is a directory") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a directory in place of the file: %v", err)
	}
}
