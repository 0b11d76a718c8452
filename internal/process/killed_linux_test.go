package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// owner is the variable with the file of TestProgramEndsWithItsOwner's grandchild.
const owner = "PROCESS_TEST_OWNER"

func TestMain(m *testing.M) {
	if pidFile := os.Getenv(owner); pidFile != "" {
		p := Program{Command: []string{"sh", "-c", descendants[4].leave + "\nexec sleep 50", pidFile}}
		_, err := p.Run(context.Background(), nil, 1)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A run that is killed cannot kill its programs; their supervisors do.
func TestProgramEndsWithItsOwner(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	run := exec.CommandContext(t.Context(), os.Args[0])
	run.Env = append(os.Environ(), owner+"="+pidFile)
	run.Stderr = os.Stderr
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	written(t.Context(), pidFile)
	if err := run.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait()
	gone(t, pidFile)
}
