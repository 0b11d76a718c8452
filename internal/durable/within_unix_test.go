//go:build unix

package durable

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// To open a pipe would wait for its writer, and a device may have no end.
func TestReadersOpenNoPipeAndNoDevice(t *testing.T) {
	dir := t.TempDir()
	pipe := segmentPath(dir, 0)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	zero := filepath.Join(dir, "zero")
	if err := os.Symlink("/dev/zero", zero); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, zero} {
		if _, err := ReadRegular(path, 10); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := ReadLog(dir, 0).Next(); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a log: %v", err)
	}
}

func TestReadRegularIsBounded(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadRegular(link, 4); err != nil || string(text) != "four" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := ReadRegular(file, 3); err == nil || !strings.Contains(err.Error(), "4 bytes, more than 3") {
		t.Errorf("a file that is too large: %v", err)
	}
}
