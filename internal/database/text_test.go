package database

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/database/dburl"
)

// The error for an unreachable server has one cause, not a line for each attempt.
func TestWhyAServerIsNotReached(t *testing.T) {
	a, err := dburl.Parse("postgresql://somebody:s3cret@127.0.0.1:1/trinity") // where nobody listens
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), a, Options{})
	if err == nil || strings.Count(err.Error(), "dial tcp") != 1 || strings.Contains(err.Error(), "failed to connect") {
		t.Errorf("%v, want one cause", err)
	}
}

// The error for a damaged file says what to do.
func TestADamagedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := dburl.Parse("sqlite:///" + filepath.ToSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), a, Options{}); err == nil || !strings.Contains(err.Error(), "restore it from a copy") {
		t.Errorf("%v, want what to do", err)
	}
}
