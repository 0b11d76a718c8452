package trinitytest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/sandbox"
)

// Sandbox tests what every sandbox must do, whatever its isolation: the program gets its files,
// input and environment, and nothing else of this process; the result says how it ended; the limits
// of time and output end it; a program that does not exist and an ended context are errors; and
// programs do not meet.
func Sandbox(t *testing.T, s *sandbox.Sandbox) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	shell := func(script string) *sandbox.Program {
		return &sandbox.Program{Command: []string{"sh", "-c", script}, Limits: sandbox.Limits{Wall: 30 * time.Second}}
	}
	t.Setenv("SANDBOX_TEST_SECRET", "secret")
	files := shell("cat a/b c; cat; echo $X; echo error >&2; exit 3")
	files.Files = map[string][]byte{"a/b": []byte("1\n"), "c": []byte("2\n")}
	files.Stdin, files.Env = []byte("3\n"), []string{"X=4"}
	loud := shell("while :; do echo 0123456789; done")
	loud.Limits.Output = 1000
	late := shell("echo begun; while :; do :; done")
	late.Limits.Wall = 300 * time.Millisecond
	busy := shell("while :; do :; done")
	busy.Limits.CPU = time.Second
	for _, c := range []struct {
		name string
		p    *sandbox.Program
		want sandbox.Result
	}{
		{"files, input, environment, status", files, sandbox.Result{ExitCode: 3, Stdout: []byte("1\n2\n3\n4\n"), Stderr: []byte("error\n")}},
		{"no environment of this process", shell(`echo "$SANDBOX_TEST_SECRET"`), sandbox.Result{Stdout: []byte("\n")}},
		{"a signal", shell(`sh -c 'kill -9 $$'; echo $?`), sandbox.Result{Stdout: []byte("137\n")}},
		{"too much output", loud, sandbox.Result{Truncated: true, ExitCode: -1, Stdout: []byte(strings.Repeat("0123456789\n", 91)[:1000])}},
		{"too late", late, sandbox.Result{TimedOut: true, ExitCode: -1, Stdout: []byte("begun\n")}},
		{"too much work", busy, sandbox.Result{TimedOut: true, ExitCode: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := s.Run(t.Context(), c.p)
			if err != nil {
				t.Fatal(err)
			}
			if r.ExitCode != c.want.ExitCode || r.TimedOut != c.want.TimedOut || r.Truncated != c.want.Truncated ||
				string(r.Stdout) != string(c.want.Stdout) || c.want.Stderr != nil && string(r.Stderr) != string(c.want.Stderr) {
				t.Errorf("got %+v\nstdout %.200q, stderr %.200q\nwant %+v", r, r.Stdout, r.Stderr, c.want)
			}
		})
	}
	t.Run("errors", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		soon, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer stop()
		for name, c := range map[string]struct {
			ctx context.Context
			p   *sandbox.Program
		}{
			"no program":       {t.Context(), &sandbox.Program{}},
			"a missing one":    {t.Context(), &sandbox.Program{Command: []string{"no-such-program"}}},
			"a missing path":   {t.Context(), &sandbox.Program{Command: []string{"/no/such/program"}}},
			"a file outside":   {t.Context(), &sandbox.Program{Command: []string{"true"}, Files: map[string][]byte{"../x": nil}}},
			"a negative limit": {t.Context(), &sandbox.Program{Command: []string{"true"}, Limits: sandbox.Limits{Memory: -1}}},
			"an ended context": {ended, shell("true")},
			"a context's end":  {soon, shell("sleep 20")},
		} {
			if r, err := s.Run(c.ctx, c.p); err == nil {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
	t.Run("programs do not meet", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				r, err := s.Run(t.Context(), shell(fmt.Sprintf("echo %d >file; ls; cat file", i)))
				if want := fmt.Sprintf("file\n%d\n", i); err != nil || string(r.Stdout) != want {
					t.Errorf("%q, %v, want %q; stderr %s", r.Stdout, err, want, r.Stderr)
				}
			})
		}
		wg.Wait()
	})
}
