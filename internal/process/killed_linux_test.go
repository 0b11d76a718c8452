package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// owner is the variable with the file of TestProgramEndsWithItsOwner's grandchild.
const owner = "PROCESS_TEST_OWNER"

func TestMain(m *testing.M) {
	if pidFile := os.Getenv(owner); pidFile != "" {
		p := Program{
			Command: []string{"sh", "-c", descendants[4].leave + "\nexec sleep 50", pidFile},
			Scratch: filepath.Join(filepath.Dir(pidFile), "scratch"),
		}
		_, err := p.Run(context.Background(), nil, 1)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A run that is killed cannot kill its programs, nor remove their directories; their supervisors do.
func TestProgramEndsWithItsOwner(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	scratch := filepath.Join(filepath.Dir(pidFile), "scratch")
	if err := os.MkdirAll(filepath.Join(scratch, "worker"), 0o755); err != nil {
		t.Fatal(err)
	}
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
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(scratch); errors.Is(err, fs.ErrNotExist) {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%s is left: %v", scratch, err)
		}
	}
}

// A confined function that has no memory because of ulimit names the limit.
func TestLimitsOfTheShellAreTold(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector reserves more")
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &before); err != nil {
		t.Fatal(err)
	}
	limit := before
	limit.Cur = 4 << 30
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_AS, &before); err != nil {
			t.Error(err)
		}
	}()
	err := confined.Run(t.Context(), strings.NewReader("grow"), func(out io.Reader) error {
		_, err := io.Copy(io.Discard, out)
		return err
	})
	if want := "it needs more memory than `ulimit -v` allows: 4096 MiB"; !errors.Is(err, ErrMemory) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Resident counts what a child process of the program has, and not the supervisor. Linux kills an
// expendable program first.
func TestMemoryOfAProgram(t *testing.T) {
	p := shell(t, `sh -c 'x=$(head -c 30000000 /dev/zero | tr "\0" a); echo ready; read y'; cat /proc/self/oom_score_adj`, "")
	p.Expendable = true
	x, err := p.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(x.Out)
	if line, err := out.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	if bytes := x.Resident(); bytes < 30e6 || bytes > 150e6 {
		t.Errorf("%d bytes", bytes)
	}
	fmt.Fprintln(x.In)
	if line, err := out.ReadString('\n'); line != "1000\n" {
		t.Error(line, err)
	}
	if err := x.Wait(); err != nil {
		t.Error(err)
	}
}
