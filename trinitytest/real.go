package trinitytest

import (
	"os"
	"os/exec"
	"testing"
)

// Missing skips a test whose real component is not on this machine, such as a server or a Python with
// torch. With TRINITY_REAL=required it fails the test. how says what to install.
func Missing(t testing.TB, how string) {
	t.Helper()
	if os.Getenv("TRINITY_REAL") == "required" {
		t.Fatalf("TRINITY_REAL=required: %s", how)
	}
	t.Skip(how)
}

// Command returns the path of a program, or calls [Missing].
func Command(t testing.TB, name, how string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		Missing(t, how)
	}
	return path
}
