package durable

import (
	"os"
	"path/filepath"
	"testing"
)

// The folder of a killed process is removed, and that of a living one, one without a lock and what a link
// points to stay.
func TestScratchOfKilledProcessesIsRemoved(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	killed, link, other := filepath.Join(dir, "trinity-killed"), filepath.Join(dir, "trinity-link"), filepath.Join(t.TempDir(), "other")
	unlocked := filepath.Join(dir, "trinity-unlocked")
	for _, folder := range []string{killed, other, unlocked} {
		if err := os.MkdirAll(filepath.Join(folder, "files"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{killed, other} {
		if err := os.WriteFile(filepath.Join(folder, scratchLock), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, link); err != nil {
		t.Skip(err)
	}
	linked := filepath.Join(dir, "trinity-linked") // its lock is a link to another's
	if err := os.Mkdir(linked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(other, scratchLock), filepath.Join(linked, scratchLock)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(killed, "files"), 0); err != nil { // as a program may
		t.Fatal(err)
	}
	s, err := NewScratch("trinity-own-")
	if err != nil {
		t.Fatal(err)
	}
	sweepScratch(dir)
	for path, stays := range map[string]bool{killed: false, s.Dir: true, unlocked: true, other: true, link: true, linked: true} {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want that it stays: %v", path, err, stays)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.Dir); err == nil {
		t.Error("the folder stays after its end")
	}
}
