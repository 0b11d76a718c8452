package sandbox_test

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	for _, isolation := range []sandbox.Isolation{sandbox.Full, sandbox.Best, sandbox.None} {
		t.Run(string(isolation), func(t *testing.T) {
			s, err := sandbox.New(isolation)
			if err != nil {
				t.Skip(err)
			}
			trinitytest.Sandbox(t, s)
		})
	}
}

// Full isolation is all or an error that names what is missing.
func TestIsolationIsNamed(t *testing.T) {
	var missing []string
	for _, l := range sandbox.Layers() {
		if !l.Works && l.Name != "cgroup" && l.Name != "limits" {
			missing = append(missing, l.Name)
		}
	}
	_, err := sandbox.New(sandbox.Full)
	if (err != nil) != (len(missing) > 0) {
		t.Errorf("%v, though this machine lacks %q", err, missing)
	}
	for _, name := range missing {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if s, err := sandbox.New(sandbox.None); err != nil || len(s.Lacks()) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := sandbox.New("fully"); err == nil || !strings.Contains(err.Error(), `"fully"`) {
		t.Error(err)
	}
}

// Folders of a program are its own: empty, writable, and gone with it.
func TestFoldersOfAProgram(t *testing.T) {
	run := func(s *sandbox.Sandbox, script string, folders ...string) (sandbox.Result, error) {
		return s.Run(t.Context(), &sandbox.Program{Command: []string{"sh", "-c", script}, Folders: folders})
	}
	none, err := sandbox.New(sandbox.None)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(none, "true", "/app"); err == nil || !strings.Contains(err.Error(), "namespaces") {
		t.Errorf("without namespaces: %v", err)
	}
	s, err := sandbox.New(sandbox.Full)
	if err != nil {
		t.Skip(err)
	}
	const script = "ls -A /app /logs/verifier; echo 1 >/logs/verifier/a && mv /logs/verifier/a /app/b && mkdir /app/c && cat /app/b"
	for range 2 {
		r, err := run(s, script, "/app", "/logs/verifier")
		if want := "/app:\n\n/logs/verifier:\n1\n"; err != nil || string(r.Stdout) != want {
			t.Errorf("%v, %+v\nprints %q and %q, want %q", err, r, r.Stdout, r.Stderr, want)
		}
	}
	if r, err := run(s, "echo 1 >/logs/a", "/logs/verifier"); err != nil || r.ExitCode == 0 {
		t.Errorf("the folder above can be written: %v, %+v", err, r)
	}
	for _, folder := range []string{"/", "/usr/x", "/lib64", "/etc", "/proc/x", "/tmp/x", "/work", "app", "/app/", "/app/../etc"} {
		if _, err := run(s, "true", folder); err == nil {
			t.Errorf("%s is accepted", folder)
		}
	}
}
