package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// A run that was killed leaves folders. The next one removes those, and no folder that is in use.
func TestSweepRemovesFoldersOfDeadRuns(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	place := func() *folder {
		f, err := newFolder()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.work(), "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	live, dead := place(), place()
	forbidden := filepath.Join(dead.work(), "a", "b")
	if err := os.MkdirAll(forbidden, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{forbidden, filepath.Dir(forbidden)} { // as a program may
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	dead.lock.Close() // as the kernel does when the run dies
	named := func(name string) string { return filepath.Join(dir, folderPrefix+name) }
	foreign, empty, link := named("foreign"), named("empty"), named("link")
	if err := os.MkdirAll(filepath.Join(foreign, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(live.path, link); err != nil {
		t.Fatal(err)
	}
	sweepFolders(dir)
	for path, want := range map[string]bool{live.path: true, filepath.Join(live.work(), "file"): true, dead.path: false, foreign: true,
		empty: false, link: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	live.remove()
	if _, err := os.Stat(live.path); err == nil {
		t.Error("a folder is left after its program")
	}
}
