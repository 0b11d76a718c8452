package cachedir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, d *Dir, name string, n int) {
	t.Helper()
	if err := d.Write(name, []byte(strings.Repeat("x", n))); err != nil {
		t.Fatal(err)
	}
}

// sizeOf returns the size of a file, −1 if there is none.
func sizeOf(t *testing.T, d *Dir, name string) int64 {
	t.Helper()
	f, size, err := d.Open(name)
	if err != nil {
		return -1
	}
	f.Close()
	return size
}

// The file that was used the longest time ago goes first, and files of killed writers go in the end.
func TestTheOldestGo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cache")
	d := New(path, 1000)
	for i, name := range []string{"a", "b", "c"} {
		write(t, d, name, 300)
		at := time.Now().Add(time.Duration(i-10) * time.Hour)
		if err := os.Chtimes(filepath.Join(path, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(path, tempPrefix+"1")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * tempAge)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	sizeOf(t, d, "a") // which is used
	write(t, d, "d", 200)
	if a, b, c := sizeOf(t, d, "a"), sizeOf(t, d, "b"), sizeOf(t, d, "c"); a != 300 || b != -1 || c != 300 {
		t.Errorf("sizes %d, %d, %d", a, b, c)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("half a file is still there")
	}
	write(t, d, "e", 1001)
	if sizeOf(t, d, "e") != -1 || sizeOf(t, d, "d") != 200 {
		t.Error("a file that is too large took the place of others")
	}
}

// Without a cache nothing is kept and nothing fails.
func TestNoCache(t *testing.T) {
	var d *Dir
	write(t, d, "a", 1)
	if _, _, err := d.Open("a"); err == nil || d.IsBelow("/") {
		t.Error("there is a file without a cache")
	}
	if d := New(filepath.Join(t.TempDir(), "x", "y"), 10); !d.IsBelow(filepath.Dir(d.path)) || d.IsBelow(filepath.Join(d.path, "z")) {
		t.Error("the cache is in the wrong directory")
	}
}

// A file that is too large for the cache is none of its files, and nobody reads it into memory.
func TestFilesThatAreTooLarge(t *testing.T) {
	path := t.TempDir()
	d := New(path, 1000)
	write(t, d, "a", 900)
	if n := sizeOf(t, d, "a"); n != 900 {
		t.Errorf("the file has %d bytes", n)
	}
	if err := os.Truncate(filepath.Join(path, "a"), 1001); err != nil {
		t.Fatal(err)
	}
	if n := sizeOf(t, d, "a"); n != -1 {
		t.Errorf("a file of %d bytes is opened", n)
	}
}
