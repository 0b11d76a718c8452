//go:build unix

package operator

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A child process in a process group of its own holds the pipes open. The operator does not wait
// for it and still has the whole answer.
func TestExecDoesNotWaitForDaemons(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	g := group(1, 0)
	g[0].Response = strings.Repeat("x", 300_000)
	pidFile := filepath.Join(t.TempDir(), "pid")
	script := `setsid sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 100' "$0" & while [ ! -e "$0" ]; do sleep 0.01; done; exec cat`
	kept, _, err := build(t, "exec", args{"command": []any{"sh", "-c", script, pidFile}}).Process(t.Context(), groups{g})
	if err != nil || !same(values(kept), [][]float64{{1, 0}}) {
		t.Errorf("kept %v, %v", values(kept), err)
	}
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the operator waited for the daemon to exit: %v", err)
	}
}

// slowly is a reader that continues only after the program has exited.
type slowly struct {
	bytes.Buffer
	cmd *exec.Cmd
}

func (s *slowly) Write(p []byte) (int, error) {
	for s.Len() == 0 && syscall.Kill(s.cmd.Process.Pid, 0) == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // the program has exited by now
	return s.Buffer.Write(p)
}

// The operator reads everything that a program has written, even after its exit, because a
// truncated answer would drop experiences.
func TestLateReaderGetsWholeAnswer(t *testing.T) {
	const size = 60_000 // less than the capacity of a pipe, more than one read
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "head -c "+strconv.Itoa(size)+" /dev/zero")
	out := &slowly{cmd: cmd}
	if err := feed(cmd, nil, out, io.Discard); err != nil || out.Len() != size {
		t.Errorf("%d bytes, %v; want %d", out.Len(), err, size)
	}
}
