package durable

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A holder of this host is known to live or to be dead; nobody takes a lock to see it.
func TestHolders(t *testing.T) {
	dir := t.TempDir()
	lock, err := TakeLock(dir, "part", "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := os.WriteFile(filepath.Join(dir, ".holder_torn.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	huge := `{"pid":1}` + strings.Repeat(" ", maxHolder)
	if err := os.WriteFile(filepath.Join(dir, ".holder_huge.json"), []byte(huge), 0o600); err != nil {
		t.Fatal(err)
	}
	holders, err := Holders(dir)
	if err != nil || len(holders) != 1 || holders["part"].PID != os.Getpid() || holders["part"].By != "a test" {
		t.Fatalf("%+v, %v", holders, err)
	}
	me := holders["part"]
	gone := exec.Command(os.Args[0], "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dead, elsewhere, reused := me, me, me
	dead.PID = gone.Process.Pid
	elsewhere.Host = "elsewhere"
	reused.Since = reused.Since.Add(-1000 * time.Hour)
	for name, c := range map[string]struct {
		held         Held
		lives, known bool
	}{"this process": {me, true, true}, "a dead one": {dead, false, true}, "another host's": {elsewhere, false, false}} {
		if lives, known := c.held.Lives(); lives != c.lives || known != c.known {
			t.Errorf("%s: lives %v, known %v", name, lives, known)
		}
	}
	if _, ok := beginOf(os.Getpid()); ok {
		if lives, _ := reused.Lives(); lives {
			t.Error("a process that began long after the lock holds it")
		}
	}
	if _, err := Holders(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there has holders")
	}
}
